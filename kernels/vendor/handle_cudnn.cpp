// cuDNN's handles and errors.
#include <cudnn.h>

#include <map>

#include "reprise/core/cuda/runtime.h"
#include "reprise/kernels/vendor/cudnn.h"

namespace reprise::kernels::vendor {
namespace {

std::mutex& mutex() {
  static std::mutex one;
  return one;
}

}  // namespace

CudnnScope::CudnnScope(const Stream& stream) : lock_(mutex()) {
  static auto& handles = *new std::map<int, cudnnHandle_t>;
  const int device = stream.device().index;
  cuda::select_device(device);
  cudnnHandle_t& handle = handles[device];
  if (!handle) check_cudnn(cudnnCreate(&handle), "cudnnCreate", "device ", device);
  check_cudnn(cudnnSetStream(handle, static_cast<cudaStream_t>(stream.handle())), "cudnnSetStream", "device ",
              device);
  handle_ = handle;
}

void fail_cudnn(int status, const char* call, const std::string& values) {
  char message[512] = "";
  cudnnGetLastErrorString(message, sizeof(message));
  fail(call, ": ", cudnnGetErrorString(cudnnStatus_t(status)), " (", message, "); ", values);
}

}  // namespace reprise::kernels::vendor
