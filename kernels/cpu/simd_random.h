// Philox (core/random.h) on vectors: one block per lane, for the bodies of `simd::run`. The bits are those of
// `philox_block`.
#pragma once

#include <cstdint>
#include <utility>

#include "reprise/kernels/cpu/simd.h"

namespace reprise::kernels::simd {

/// The upper and lower halves of the 64-bit products of the lanes with `factor`.
template <int W>
struct WideProduct {
  Vector<uint32_t, W> high, low;

  [[gnu::always_inline]] WideProduct(Vector<uint32_t, W> x, uint32_t factor) {
    using Pairs = Vector<uint64_t, W / 2>;  // lanes 2i + 1 and 2i as the halves of one number
    Pairs pairs = reinterpret_cast<Pairs>(x);
    Pairs even = (pairs & 0xffffffffu) * uint64_t(factor), odd = (pairs >> 32) * uint64_t(factor);
    high = reinterpret_cast<Vector<uint32_t, W>>((even >> 32) | (odd & 0xffffffff00000000u));
    low = reinterpret_cast<Vector<uint32_t, W>>((even & 0xffffffffu) | (odd << 32));
  }
};

/// Lane i of words[w] is word w of philox_block(seed, offset, first_block + i).
template <int W>
[[gnu::always_inline]] inline void philox_blocks(uint64_t seed, uint64_t offset, uint64_t first_block,
                                                 Vector<uint32_t, W> (&words)[4]) {
  using U = Vector<uint32_t, W>;
  uint32_t counter[size_t(W)], carry[size_t(W)];
  for (int i = 0; i < W; ++i) {
    counter[i] = uint32_t(first_block) + uint32_t(i);
    carry[i] = uint32_t(first_block >> 32) + (counter[i] < uint32_t(i));
  }
  U c0 = load<U>(counter), c1 = load<U>(carry), c2 = U{} + uint32_t(offset),
    c3 = U{} + uint32_t(offset >> 32);
  uint32_t key0 = uint32_t(seed), key1 = uint32_t(seed >> 32);
  for (int round = 0; round < 10; ++round, key0 += 0x9E3779B9u, key1 += 0xBB67AE85u) {
    WideProduct<W> product0(c0, 0xD2511F53u), product1(c2, 0xCD9E8D57u);
    c0 = product1.high ^ c1 ^ key0;
    c1 = product1.low;
    c2 = product0.high ^ c3 ^ key1;
    c3 = product0.low;
  }
  words[0] = c0;
  words[1] = c1;
  words[2] = c2;
  words[3] = c3;
}

namespace detail {
template <class V, size_t... I>
[[gnu::always_inline]] inline void zip(V& a, V& b, std::index_sequence<I...>) {
  constexpr int W = sizeof...(I);
  V low = __builtin_shufflevector(a, b, (int(I) / 2 + (int(I) % 2 ? W : 0))...);
  b = __builtin_shufflevector(a, b, (int(I) / 2 + W / 2 + (int(I) % 2 ? W : 0))...);
  a = low;
}
}  // namespace detail

/// The draws of elements 4 * first_block + [0, 4 W) in order, as four vectors.
template <int W>
[[gnu::always_inline]] inline void philox_draws(uint64_t seed, uint64_t offset, uint64_t first_block,
                                                Vector<uint32_t, W> (&draws)[4]) {
  constexpr auto lanes = std::make_index_sequence<size_t(W)>();
  Vector<uint32_t, W> words[4];
  philox_blocks<W>(seed, offset, first_block, words);
  detail::zip(words[0], words[2], lanes);  // of each block 0 2, in words[0] for the first half of the blocks
  detail::zip(words[1], words[3], lanes);  // and 1 3
  detail::zip(words[0], words[1], lanes);
  detail::zip(words[2], words[3], lanes);
  draws[0] = words[0];
  draws[1] = words[1];
  draws[2] = words[2];
  draws[3] = words[3];
}

}  // namespace reprise::kernels::simd
