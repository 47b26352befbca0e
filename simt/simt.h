// The CUDA vocabulary that kernels are written in: the one header a .cu file includes for it. nvcc builds the
// kernel for a GPU; a plain C++ compiler builds the same source for the emulator, which runs it on the CPU
// with one fiber per CUDA thread (docs/emulator.md).
//
//   template <class T>
//   __global__ void scale_kernel(T* y, float factor, int64_t n) {
//     int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
//     if (i < n) y[i] *= factor;
//   }
//   simt::launch({.name = "scale", .grid = blocks, .block = 256, .stream = stream}, scale_kernel<float>,
//   y, 2.0f, n);
//
// Shared memory is declared by two macros, so that the emulator knows of it:
//   REPRISE_SHARED(float, partial, [32]);     // a static array
//   REPRISE_DYNAMIC_SHARED(bytes);            // unsigned char*, 1024-byte aligned, Launch::shared_bytes long
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector_functions.h>
#include <vector_types.h>

#include <cstddef>
#include <cstdint>

#include "reprise/core/error.h"
#include "reprise/core/stream.h"

namespace reprise::simt {

/// Where and how wide a kernel runs. Grid and block are counted in blocks and threads.
struct Launch {
  const char* name;  ///< for errors
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;  ///< dynamic shared memory of a block
  Stream stream;
};

}  // namespace reprise::simt

#ifdef __CUDACC__
#include "reprise/simt/launch_gpu.h"
#else
#include "reprise/simt/emulator.h"
#endif
