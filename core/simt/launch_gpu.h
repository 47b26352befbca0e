// Launching on a GPU: the only kernel launch in Reprise.
#pragma once

#include <cuda_runtime.h>

#include "reprise/core/simt/simt.h"

#define REPRISE_SHARED(T, name, dims) __shared__ T name dims
#define REPRISE_DYNAMIC_SHARED(name) extern __shared__ __align__(1024) unsigned char name[]

namespace reprise::simt {
namespace detail {

inline void check_launch(cudaError_t status, const Launch& config, const char* call) {
  check(status == cudaSuccess, config.name, ": ", call, ": ", cudaGetErrorString(status), ", grid (",
        config.grid.x, ", ", config.grid.y, ", ", config.grid.z, "), block (", config.block.x, ", ",
        config.block.y, ", ", config.block.z, "), ", config.shared_bytes, " bytes of shared memory");
}

}  // namespace detail

/// Runs `kernel` on the stream. Error naming the kernel if the device refuses the launch.
template <class... Parameters, class... Args>
void launch(const Launch& config, void (*kernel)(Parameters...), Args&&... args) {
  constexpr size_t bytes_without_asking = 48 * 1024;
  if (config.shared_bytes > bytes_without_asking) {
    auto status = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                       cudaFuncAttributeMaxDynamicSharedMemorySize, int(config.shared_bytes));
    detail::check_launch(status, config, "cudaFuncSetAttribute");
  }
  cudaLaunchConfig_t launch_config{};
  launch_config.gridDim = config.grid;
  launch_config.blockDim = config.block;
  launch_config.dynamicSmemBytes = config.shared_bytes;
  launch_config.stream = static_cast<cudaStream_t>(config.stream.handle());
  detail::check_launch(cudaLaunchKernelEx(&launch_config, kernel, static_cast<Parameters>(args)...), config,
                       "cudaLaunchKernelEx");
}

}  // namespace reprise::simt
