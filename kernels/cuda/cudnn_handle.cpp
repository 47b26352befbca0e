// cuDNN's handles and errors.
#include <cudnn.h>

#include <map>

#include "reprise/core/cuda/graph.h"
#include "reprise/core/cuda/runtime.h"
#include "reprise/kernels/cuda/cudnn_handle.h"
#include "reprise/kernels/cuda/cudnn_library.h"

namespace reprise::kernels::vendor {
namespace {

std::mutex& mutex() {
  static std::mutex one;
  return one;
}

/// The handle of a device, made at its first use; the mutex is held.
cudnnHandle_t handle_of(int device) {
  static auto& handles = *new std::map<int, cudnnHandle_t>;
  cuda::select_device(device);
  cudnnHandle_t& handle = handles[device];
  if (!handle) check_cudnn(cudnnCreate(&handle), "cudnnCreate", "device ", device);
  return handle;
}

const cuda::BeforeCapture handle_before_capture{[](Device device) {
  if (!has_cudnn()) return;
  std::lock_guard lock(mutex());
  handle_of(device.index);
}};

}  // namespace

CudnnScope::CudnnScope(const Stream& stream) : lock_(mutex()) {
  const int device = stream.device().index;
  cudnnHandle_t handle = handle_of(device);
  check_cudnn(cudnnSetStream(handle, static_cast<cudaStream_t>(stream.handle())), "cudnnSetStream", "device ",
              device);
  handle_ = handle;
}

void fail_cudnn(int status, const char* call, const std::string& values) {
  char message[512] = "";
  cudnnGetLastErrorString(message, sizeof(message));
  const std::string text =
      detail::join(call, ": ", cudnnGetErrorString(cudnnStatus_t(status)), " (", message, "); ", values);
  if (status / 1000 == 2 || status / 1000 == 3) throw CudnnRefusal(text);
  throw Error(text);
}

}  // namespace reprise::kernels::vendor
