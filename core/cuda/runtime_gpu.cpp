// The CUDA runtime of a machine with GPUs. Linked statically, it starts without a driver too: then there are
// no devices, and unavailable_reason says why.
#include "reprise/core/cuda/capture_mode.h"
#include "reprise/core/cuda/runtime.h"
#include "reprise/core/cuda/stream_priority.h"

#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <vector>

#include "reprise/core/cuda/kernel_image.h"
#include "reprise/core/error.h"

namespace reprise::cuda {
namespace {

// What a kernel did wrong comes out of a later call that has nothing to do with it.
const char* hint(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
      return "; a kernel launched earlier did it: compute-sanitizer names it";
    default:
      return "";
  }
}

// Throws Error naming the call, CUDA's word for what went wrong, and the arguments.
template <class... Arguments>
void check_call(cudaError_t status, const char* call, const Arguments&... arguments) {
  if (status == cudaSuccess) [[likely]]
    return;
  cudaGetLastError();  // or the next launch would report it again
  fail(call, ": ", cudaGetErrorString(status), " (", cudaGetErrorName(status), "); ", arguments...,
       hint(status));
}

struct Probe {
  int count = 0;
  std::string reason;
};

Probe probe_devices() {
  Probe probe;
  cudaError_t status = cudaGetDeviceCount(&probe.count);
  if (status == cudaSuccess && probe.count > 0) return probe;
  cudaGetLastError();
  probe.count = 0;
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    probe.reason = "this machine has no CUDA driver";
  } else if (status == cudaErrorInsufficientDriver) {
    probe.reason = detail::join("the driver is for CUDA ", driver / 1000, '.', driver % 1000 / 10,
                                ", Reprise was built with CUDA ", CUDART_VERSION / 1000, '.',
                                CUDART_VERSION % 1000 / 10);
  } else if (status == cudaSuccess || status == cudaErrorNoDevice) {
    probe.reason = "the driver finds no GPU";
  } else {
    probe.reason = detail::join(cudaGetErrorString(status), " (", cudaGetErrorName(status), ")");
  }
  return probe;
}

const Probe& probe() {
  static const Probe result = probe_devices();
  return result;
}

DeviceProperties ask_properties(int device) {
  cudaDeviceProp found;
  check_call(cudaGetDeviceProperties(&found, device), "cudaGetDeviceProperties", "device ", device);
  char bus_id[32] = "";
  check_call(cudaDeviceGetPCIBusId(bus_id, sizeof(bus_id), device), "cudaDeviceGetPCIBusId", "device ",
             device);
  return {.name = found.name,
          .major = found.major,
          .minor = found.minor,
          .multiprocessors = found.multiProcessorCount,
          .memory_bytes = found.totalGlobalMem,
          .shared_bytes_per_block = found.sharedMemPerBlockOptin,
          .l2_bytes = size_t(found.l2CacheSize),
          .bus_id = bus_id};
}

thread_local int selected = -1;

// Another device than the selected one, for a while.
class DeviceScope {
 public:
  explicit DeviceScope(int device) : previous_(selected) { select_device(device); }
  ~DeviceScope() {
    if (previous_ >= 0 && previous_ != selected && cudaSetDevice(previous_) == cudaSuccess)
      selected = previous_;
  }
  DeviceScope(const DeviceScope&) = delete;

 private:
  int previous_;
};

// Whether a GPU reaches memory that is not pinned by itself (Grace, or a kernel with HMM). There it may read the source of
// a copy after the call has returned, as CUDA's "API synchronization behavior" allows; elsewhere the driver stages it.
bool reach_pageable_memory() {
  static const bool any = [] {
    for (int device = 0; device < device_count(); ++device) {
      int reaches = 0;
      check_call(cudaDeviceGetAttribute(&reaches, cudaDevAttrPageableMemoryAccess, device),
                 "cudaDeviceGetAttribute", "device ", device);
      if (reaches) return true;
    }
    return false;
  }();
  return any;
}

bool is_pageable(const void* data) {
  cudaPointerAttributes attributes{};
  check_call(cudaPointerGetAttributes(&attributes, data), "cudaPointerGetAttributes", "address ", data);
  return attributes.type == cudaMemoryTypeUnregistered;
}

bool ask_for_image(int device) {
  if (!probe_kernel()) return true;  // there is none that could fail
  DeviceScope scope(device);
  cudaFuncAttributes attributes{};
  const cudaError_t status = cudaFuncGetAttributes(&attributes, probe_kernel());
  switch (status) {
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorUnsupportedPtxVersion:  // of a driver older than the toolkit
    case cudaErrorJitCompilerNotFound:
      cudaGetLastError();
      return false;
    default:
      check_call(status, "cudaFuncGetAttributes", "device ", device);
      return true;
  }
}

cudaStream_t stream_of(void* handle) { return static_cast<cudaStream_t>(handle); }
cudaEvent_t event_of(void* handle) { return static_cast<cudaEvent_t>(handle); }

}  // namespace

int device_count() { return probe().count; }
std::string unavailable_reason() { return probe().reason; }
bool is_emulated() { return false; }
int least_capability() { return REPRISE_CUDA_LEAST_CAPABILITY; }  // of REPRISE_CUDA_ARCHITECTURES

bool has_kernel_image(int device) {
  static std::mutex mutex;
  static auto& known = *new std::map<int, bool>;
  std::lock_guard lock(mutex);
  auto found = known.find(device);
  if (found == known.end()) found = known.emplace(device, ask_for_image(device)).first;
  return found->second;
}

std::string built_architectures() { return REPRISE_CUDA_BUILT_FOR; }

void select_device(int device) {
  if (device == selected) return;
  check_call(cudaSetDevice(device), "cudaSetDevice", "device ", device);
  selected = device;
}

const DeviceProperties& properties(int device) {
  check(device >= 0 && device < device_count(), "properties: no CUDA device ", device, " of ",
        device_count());
  static const auto* all = [] {
    auto* found = new std::vector<DeviceProperties>;
    for (int i = 0; i < device_count(); ++i) found->push_back(ask_properties(i));
    return found;
  }();
  return (*all)[size_t(device)];
}

void* allocate(int device, size_t bytes) {
  DeviceScope scope(device);
  void* data = nullptr;
  cudaError_t status = cudaMalloc(&data, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check_call(status, "cudaMalloc", "device ", device, ", ", bytes, " bytes");
  return data;
}

// What is released may fail only when the process ends, or after a failure that has been reported.
void release(int, void* data) noexcept {
  if (cudaFree(data) != cudaSuccess) cudaGetLastError();
}

size_t free_memory(int device) {
  DeviceScope scope(device);
  size_t free = 0, all = 0;
  check_call(cudaMemGetInfo(&free, &all), "cudaMemGetInfo", "device ", device);
  return free;
}

void* allocate_pinned(size_t bytes) {
  void* data = nullptr;
  check_call(cudaHostAlloc(&data, bytes, cudaHostAllocPortable | cudaHostAllocMapped), "cudaHostAlloc", bytes,
             " bytes");
  return data;
}

void release_pinned(void* data) noexcept {
  if (cudaFreeHost(data) != cudaSuccess) cudaGetLastError();
}

void mark_memory(void*, size_t, bool, void*) noexcept {}

void* create_stream(int device) {
  DeviceScope scope(device);
  cudaStream_t stream = nullptr;
  check_call(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags",
             "device ", device);
  return stream;
}

void* create_stream(int device, StreamPriority priority) {
  DeviceScope scope(device);
  int least = 0, greatest = 0;  // numbers, of which the greatest priority has the least
  check_call(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange",
             "device ", device);
  cudaStream_t stream = nullptr;
  check_call(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                          priority == StreamPriority::high ? greatest : least),
             "cudaStreamCreateWithPriority", "device ", device);
  return stream;
}

void destroy_stream(void* stream) noexcept {
  if (cudaStreamDestroy(stream_of(stream)) != cudaSuccess) cudaGetLastError();
}

void synchronize_stream(void* stream) {
  check_call(cudaStreamSynchronize(stream_of(stream)), "cudaStreamSynchronize", "stream ", stream);
}

void synchronize_device(int device) {
  DeviceScope scope(device);
  check_call(cudaDeviceSynchronize(), "cudaDeviceSynchronize", "device ", device);
}

void copy_async(void* to, const void* from, size_t bytes, void* stream) {
  if (bytes == 0) return;
  check_call(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(stream)), "cudaMemcpyAsync", bytes,
             " bytes from ", from, " to ", to, ", stream ", stream);
  if (reach_pageable_memory() && is_pageable(from)) synchronize_stream(stream);
}

void set_bytes_async(void* to, unsigned char value, size_t bytes, void* stream) {
  if (bytes == 0) return;
  check_call(cudaMemsetAsync(to, value, bytes, stream_of(stream)), "cudaMemsetAsync", bytes, " bytes at ", to,
             ", stream ", stream);
}

void* create_event(int device, bool timing) {
  DeviceScope scope(device);
  cudaEvent_t event = nullptr;
  check_call(cudaEventCreateWithFlags(&event, timing ? cudaEventDefault : cudaEventDisableTiming),
             "cudaEventCreateWithFlags", "device ", device);
  return event;
}

void destroy_event(void* event) noexcept {
  if (cudaEventDestroy(event_of(event)) != cudaSuccess) cudaGetLastError();
}

void record_event(void* event, void* stream) {
  check_call(cudaEventRecord(event_of(event), stream_of(stream)), "cudaEventRecord", "stream ", stream);
}

bool is_event_done(void* event) {
  cudaError_t status = cudaEventQuery(event_of(event));
  if (status == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  check_call(status, "cudaEventQuery", "event ", event);
  return true;
}

void synchronize_event(void* event) {
  check_call(cudaEventSynchronize(event_of(event)), "cudaEventSynchronize", "event ", event);
}

void wait_event(void* stream, void* event) {
  check_call(cudaStreamWaitEvent(stream_of(stream), event_of(event), 0), "cudaStreamWaitEvent", "stream ",
             stream, ", event ", event);
}

double seconds_between(void* begin, void* end) {
  float milliseconds = 0;
  check_call(cudaEventElapsedTime(&milliseconds, event_of(begin), event_of(end)), "cudaEventElapsedTime",
             "events ", begin, " and ", end);
  return milliseconds / 1e3;
}

void begin_capture(void* stream) {
  constexpr cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                                             cudaStreamCaptureModeRelaxed};
  check_call(cudaStreamBeginCapture(stream_of(stream), modes[int(mode_of_captures)]),
             "cudaStreamBeginCapture", "stream ", stream);
}

bool is_capturing(void* stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_call(cudaStreamIsCapturing(stream_of(stream), &status), "cudaStreamIsCapturing", "stream ", stream);
  return status != cudaStreamCaptureStatusNone;
}

void* end_capture(void* stream) {
  cudaGraph_t graph = nullptr;
  check_call(cudaStreamEndCapture(stream_of(stream), &graph), "cudaStreamEndCapture", "stream ", stream);
  return graph;
}

void* instantiate_graph(void* graph) {
  cudaGraphExec_t executable = nullptr;
  check_call(cudaGraphInstantiate(&executable, static_cast<cudaGraph_t>(graph), 0), "cudaGraphInstantiate",
             "graph ", graph);
  return executable;
}

bool update_graph(void* executable, void* graph) {
  cudaGraphExecUpdateResultInfo result{};
  cudaError_t status =
      cudaGraphExecUpdate(static_cast<cudaGraphExec_t>(executable), static_cast<cudaGraph_t>(graph), &result);
  if (status == cudaErrorGraphExecUpdateFailure) {
    cudaGetLastError();
    return false;
  }
  check_call(status, "cudaGraphExecUpdate", "graph ", graph);
  return true;
}

void launch_graph(void* executable, void* stream) {
  check_call(cudaGraphLaunch(static_cast<cudaGraphExec_t>(executable), stream_of(stream)), "cudaGraphLaunch",
             "stream ", stream);
}

void destroy_graph(void* graph) noexcept {
  if (cudaGraphDestroy(static_cast<cudaGraph_t>(graph)) != cudaSuccess) cudaGetLastError();
}

void destroy_executable(void* executable) noexcept {
  if (cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable)) != cudaSuccess) cudaGetLastError();
}

}  // namespace reprise::cuda
