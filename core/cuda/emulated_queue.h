// The emulator's streams, for what runs on them: the launch of a kernel, and tests. Used in builds with
// REPRISE_CUDA=EMULATED only.
#pragma once

#include <cstddef>
#include <functional>

#include "reprise/core/cuda/runtime.h"

namespace reprise::cuda::emulated {

/// Runs `work` in the order of the stream: at once, or later if streams are deferred. While the stream is
/// captured it is recorded instead, and runs when the graph is launched. An exception of work that runs at
/// once comes out here; of later work, where the stream is next waited for.
void enqueue(void* stream, std::function<void()> work);

/// The same for work that waits for another rank: `is_ready` is asked, where the stream has come to it, until it says so.
/// Nothing waits for it here, also where streams are eager. It cannot be captured.
void enqueue_when(void* stream, std::function<bool()> is_ready, std::function<void()> work);

int device_of(void* stream);
/// The device that this thread selected last; 0 at first.
int selected_device();

/// How streams of this process run. Starts at REPRISE_EMULATOR_STREAMS=eager|deferred.
enum class Streams {
  eager,    ///< work has run when the call that enqueues it returns
  deferred  ///< work runs as late as a GPU may run it: when something waits for it. It shows missing waits
};
Streams streams();
void set_streams(Streams streams);  ///< runs what waits first

/// Pieces of work that have not run yet.
size_t pending(void* stream);

/// How often the host has waited for a device.
struct HostWaits {
  size_t streams = 0;  ///< for all work of a stream or a device
  size_t events = 0;   ///< for an event that had not passed
  size_t copies = 0;   ///< for a copy to memory that is not pinned
};
HostWaits host_waits();

/// What cuda::properties answers from now on; `memory_bytes` is a limit that allocations meet. Starts as an
/// H200. The number of devices is REPRISE_EMULATOR_DEVICES, else 1.
void set_properties(int device, const DeviceProperties& properties);

/// Whether the program holds kernels that the device runs, as it does at the start.
void set_kernel_image(int device, bool there);

}  // namespace reprise::cuda::emulated
