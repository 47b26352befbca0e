// Sums and extremes over a warp or a block. The order is fixed: the same inputs give the same bits.
#pragma once

#include "reprise/simt/simt.h"

namespace reprise::kernels::device {

inline constexpr int warp_threads = 32;
inline constexpr unsigned full_warp = 0xffffffffu;

struct Sum {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return a + b;
  }
};
struct Max {  // NaN wins
  template <class C>
  __device__ C operator()(C a, C b) const {
    return a > b || a != a ? a : b;
  }
};
struct Min {  // NaN wins
  template <class C>
  __device__ C operator()(C a, C b) const {
    return a < b || a != a ? a : b;
  }
};

/// `op` over the 32 lanes, in every lane: a butterfly, so all lanes hold the same bits.
template <class Op, class C>
__device__ __forceinline__ C warp_reduce(Op op, C value) {
#pragma unroll
  for (int offset = warp_threads / 2; offset > 0; offset /= 2)
    value = op(value, __shfl_xor_sync(full_warp, value, offset));
  return value;
}

/// `op` over all threads of a one-dimensional block of whole warps, in every thread. `scratch` holds 32
/// values in shared memory; it may be used again at once, by a call of this function too.
template <class Op, class C>
__device__ __forceinline__ C block_reduce(Op op, C value, C neutral, C* scratch) {
  const int lane = int(threadIdx.x) % warp_threads, warp = int(threadIdx.x) / warp_threads;
  const int warps = int(blockDim.x) / warp_threads;
  value = warp_reduce(op, value);
  if (lane == 0) scratch[warp] = value;
  __syncthreads();
  value = lane < warps ? scratch[lane] : neutral;
  __syncthreads();
  return warp_reduce(op, value);
}

}  // namespace reprise::kernels::device
