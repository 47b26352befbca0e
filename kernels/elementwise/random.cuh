// Philox in elementwise kernels (core/random.h has the generator): one block of four words serves a pack.
#pragma once

#include "reprise/core/random.h"
#include "reprise/kernels/elementwise/elementwise.cuh"

namespace reprise::kernels::device {

using Words = std::array<uint32_t, 4>;

/// y[i] = item number (first + i) % PerBlock of what `draw(words, C (&items)[PerBlock])` makes of the block
/// number (first + i) / PerBlock, for i < N. N is 1, or `first` and N are multiples of PerBlock.
template <int PerBlock, class C, int N, class Draw>
__device__ __forceinline__ void draw_items(uint64_t seed, uint64_t offset, int64_t first, const Draw& draw,
                                           C (&y)[N]) {
  C items[PerBlock];
  if constexpr (N == 1) {
    draw(philox_block(seed, offset, uint64_t(first) / PerBlock), items);
    y[0] = items[0];
#pragma unroll
    for (int k = 1; k < PerBlock; ++k)  // an index known only now would send the items to memory
      if (first % PerBlock == k) y[0] = items[k];
  } else {
    static_assert(N % PerBlock == 0);
#pragma unroll
    for (int i = 0; i < N; i += PerBlock) {
      draw(philox_block(seed, offset, uint64_t(first + i) / PerBlock), items);
#pragma unroll
      for (int k = 0; k < PerBlock; ++k) y[i + k] = items[k];
    }
  }
}

}  // namespace reprise::kernels::device
