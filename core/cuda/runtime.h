// The CUDA runtime as Reprise uses it: devices, memory, streams, events and graphs. One of three files
// implements this header: runtime_gpu.cpp (the real runtime), runtime_emulated.cpp (the emulator's device, on
// the CPU) or runtime_none.cpp (a build without CUDA: no device answers). Errors name the call and its
// arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace reprise::cuda {

/// Devices that answer; 0 on a machine without a GPU. Never throws. The probe runs once.
int device_count();

/// Why `device_count` is 0: "built without CUDA", "no CUDA driver", ...
std::string unavailable_reason();

/// Whether the device is the emulator.
bool is_emulated();

/// The least compute capability that the build's kernels run on: 80 for 8.0.
int least_capability();

/// Makes `device` the one that this thread's launches go to. Handles must be made and used under theirs.
void select_device(int device);

struct DeviceProperties {
  std::string name;
  int major = 0, minor = 0;  ///< compute capability
  int multiprocessors = 0;
  size_t memory_bytes = 0;
  size_t shared_bytes_per_block = 0;  ///< dynamic, with opt-in
  size_t l2_bytes = 0;
  std::string bus_id;  ///< where it is on this machine's buses: of one GPU the same in all processes
};
const DeviceProperties& properties(int device);

// Memory. Device memory is not to be read or written by the host but through copies.
void* allocate(int device, size_t bytes);  ///< 256-byte aligned; null if there is not enough
void release(int device, void* data) noexcept;
size_t free_memory(int device);       ///< bytes that no program on the machine has
void* allocate_pinned(size_t bytes);  ///< host memory that devices reach; copies use it in the background
void release_pinned(void* data) noexcept;

/// For tools that watch memory: from this point of the stream on, the bytes are, or are not, in use. Nothing
/// on a GPU.
void mark_memory(void* data, size_t bytes, bool in_use, void* stream) noexcept;

// Handles are those of the CUDA runtime (cudaStream_t, ...); null is the default stream.
void* create_stream(int device);
void destroy_stream(void* stream) noexcept;
void synchronize_stream(void* stream);
void synchronize_device(int device);

/// Copies in stream order, between any of host and device memory. What lies in host memory that is not pinned
/// has been read, or written, when this returns.
void copy_async(void* to, const void* from, size_t bytes, void* stream);
void set_bytes_async(void* to, unsigned char value, size_t bytes, void* stream);

void* create_event(int device, bool timing = false);
void destroy_event(void* event) noexcept;
void record_event(void* event, void* stream);
bool is_event_done(void* event);
void synchronize_event(void* event);
void wait_event(void* stream, void* event);      ///< later work on the stream waits
double seconds_between(void* begin, void* end);  ///< of two finished timing events

/// What runs on `stream` until end_capture is recorded instead of run.
void begin_capture(void* stream);
bool is_capturing(void* stream);
void* end_capture(void* stream);  ///< the graph
void* instantiate_graph(void* graph);
bool update_graph(void* executable, void* graph);  ///< false if the shape of the graph differs
void launch_graph(void* executable, void* stream);
void destroy_graph(void* graph) noexcept;
void destroy_executable(void* executable) noexcept;

}  // namespace reprise::cuda
