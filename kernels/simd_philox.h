// Philox4x32-10 for many blocks at once, one block a lane, for the bodies of `simd::run`. The words are those
// of `philox_block` in core/random.h.
#pragma once

#include <array>
#include <cstdint>

#include "reprise/kernels/simd.h"

namespace reprise::kernels::simd {

/// Writes the words of blocks first, first + 1, ... first + L - 1 to bits[0 ... 4 L), in order.
template <int L>
[[gnu::always_inline]] inline void philox_words(uint64_t seed, uint64_t offset, uint64_t first,
                                                uint32_t* bits) {
  using V = Vector<uint64_t, L>;  // each word in the low half of a lane: products need 64 bits
  constexpr uint64_t low_half = 0xffffffffu;
  V block;
  for (int i = 0; i < L; ++i) block[i] = first + uint64_t(i);
  V word0 = block & low_half, word1 = block >> 32, word2 = V{} + (offset & low_half),
    word3 = V{} + (offset >> 32);
  uint64_t key0 = seed & low_half, key1 = seed >> 32;
  for (int round = 0; round < 10; ++round) {
    V product0 = word0 * 0xD2511F53u, product1 = word2 * 0xCD9E8D57u;
    word0 = (product1 >> 32) ^ word1 ^ key0;
    word1 = product1 & low_half;
    word2 = (product0 >> 32) ^ word3 ^ key1;
    word3 = product0 & low_half;
    key0 = (key0 + 0x9E3779B9u) & low_half;
    key1 = (key1 + 0xBB67AE85u) & low_half;
  }
  V halves[2] = {word0 | word1 << 32, word2 | word3 << 32};
  for (int i = 0; i < L; ++i)
    for (int half = 0; half < 2; ++half) {
      uint64_t pair = halves[half][i];
      bits[4 * i + 2 * half] = uint32_t(pair);
      bits[4 * i + 2 * half + 1] = uint32_t(pair >> 32);
    }
}

}  // namespace reprise::kernels::simd
