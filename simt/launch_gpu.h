// Launching on a GPU: the only kernel launch in Reprise.
#pragma once

#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <utility>

#include "reprise/core/cuda/runtime.h"
#include "reprise/simt/simt.h"

#define REPRISE_SHARED(T, name, dims) __shared__ T name dims
#define REPRISE_DYNAMIC_SHARED(name) extern __shared__ __align__(1024) unsigned char name[]

namespace reprise::simt {
namespace detail {

inline void check_launch(cudaError_t status, const Launch& config, const char* call) {
  if (status == cudaSuccess) [[likely]]
    return;
  cudaGetLastError();  // or a later question would be answered with it
  fail(config.name, ": ", call, ": ", cudaGetErrorString(status), ", grid (", config.grid.x, ", ",
       config.grid.y, ", ", config.grid.z, "), block (", config.block.x, ", ", config.block.y, ", ",
       config.block.z, "), ", config.shared_bytes, " bytes of shared memory");
}

/// Beyond 48 KiB, which a kernel's static arrays count into, a launch must have asked. It asks for what no
/// launch of the kernel had before: less would take it from another thread that is about to launch.
inline void allow_shared_bytes(const Launch& config, const void* kernel) {
  static std::mutex mutex;
  static auto& allowed = *new std::map<std::pair<const void*, int>, size_t>;  // by kernel and device
  std::lock_guard lock(mutex);
  size_t& most = allowed[{kernel, config.stream.device().index}];
  if (config.shared_bytes <= most) return;
  check_launch(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(config.shared_bytes)),
      config, "cudaFuncSetAttribute");
  most = config.shared_bytes;
}

}  // namespace detail

/// A GPU looks by itself; the emulator does here.
__device__ __forceinline__ void check_aligned(const void*, size_t, const char*) {}

/// Runs `kernel` on the stream. Error naming the kernel if the device refuses the launch.
template <class... Parameters, class... Args>
void launch(const Launch& config, void (*kernel)(Parameters...), Args&&... args) {
  cuda::select_device(config.stream.device().index);
  if (config.shared_bytes > 0) detail::allow_shared_bytes(config, reinterpret_cast<const void*>(kernel));
  cudaLaunchConfig_t launch_config{};
  launch_config.gridDim = config.grid;
  launch_config.blockDim = config.block;
  launch_config.dynamicSmemBytes = config.shared_bytes;
  launch_config.stream = static_cast<cudaStream_t>(config.stream.handle());
  detail::check_launch(cudaLaunchKernelEx(&launch_config, kernel, static_cast<Parameters>(args)...), config,
                       "cudaLaunchKernelEx");
}

}  // namespace reprise::simt
