// What the cross-entropies on the CPU sum over a row of logits. It is read once: a block is scanned for its maximum
// and, while it is in L1, summed; what was summed before is rescaled when the maximum rises (online softmax, Milakov
// and Gimelshein 2018).
#pragma once

#include <cmath>
#include <limits>

#include "reprise/kernels/cpu/rows.h"
#include "reprise/kernels/cpu/simd_math.h"
#include "reprise/kernels/softmax/cross_entropy.h"

namespace reprise::kernels {

template <class C>
struct RowSums {
  C max = -std::numeric_limits<C>::infinity();
  double exponentials = 0;  // sum of exp(x - max)
  double logits = 0;        // sum of x; kept for label smoothing only
};

template <int L, class T, class C = Accumulator<T>>
[[gnu::always_inline]] inline C max_of(const T* x, int64_t n) {
  using V = simd::Vector<C, L>;
  constexpr C lowest = -std::numeric_limits<C>::infinity();
  V max[2] = {V{} + lowest, V{} + lowest};
  int64_t j = 0;
  for (; j + 2 * L <= n; j += 2 * L)
    for (int k = 0; k < 2; ++k) {
      V value = simd::load_row<C, L>(x + j + k * L, L);
      max[k] = value > max[k] ? value : max[k];
    }
  for (; j < n; j += L) {
    V value = simd::load_row<C, L>(x + j, n - j, lowest);
    max[0] = value > max[0] ? value : max[0];
  }
  V both = max[0] > max[1] ? max[0] : max[1];
  C result = both[0];
  for (int i = 1; i < L; ++i) result = std::max(result, C(both[i]));
  return result;
}

/// NaN and +inf logits make `exponentials` NaN, and so the loss, as they should.
template <int L, class T, class C = Accumulator<T>>
RowSums<C> sums_of(const T* x, int64_t n, bool sum_logits) {
  using V = simd::Vector<C, L>;
  constexpr C lowest = -std::numeric_limits<C>::infinity();
  RowSums<C> sums;
  for (int64_t begin = 0; begin < n; begin += kCrossEntropyBlock) {
    const T* block = x + begin;
    int64_t count = std::min(kCrossEntropyBlock, n - begin);
    C max = max_of<L>(block, count);
    if (max > sums.max) {
      sums.exponentials *= std::exp(double(sums.max) - double(max));
      sums.max = max;
    }
    C shift = sums.max == lowest ? C(0) : sums.max;  // only -inf so far: exp gives 0, not NaN
    sums.exponentials += double(sum_terms<L, C>(count, [&](int64_t j, int64_t left) {
      return simd::exp(V(simd::load_row<C, L>(block + j, left, lowest) - shift));
    }));
    if (sum_logits)
      sums.logits += double(sum_terms<L, C>(
          count, [&](int64_t j, int64_t left) { return simd::load_row<C, L>(block + j, left); }));
  }
  return sums;
}

}  // namespace reprise::kernels
