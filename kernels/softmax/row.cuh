// What softmax and cross-entropy need of a row: its maximum and the sum of the exponentials below it. A row
// that is not kept in registers is read once for both: what a thread has summed is rescaled when its maximum
// rises (online softmax, Milakov and Gimelshein 2018).
#pragma once

#include <cmath>
#include <limits>

#include "reprise/kernels/cuda/rows.cuh"

namespace reprise::kernels::device {

/// exp(x) for x <= 0 as one multiplication and the hardware's power of two; its relative error grows as |x|
/// rounding errors do, where the result itself is small beside the 1 of the maximum.
__device__ __forceinline__ float exp_below(float x) { return exp2f(x * 1.44269504f); }
__device__ __forceinline__ double exp_below(double x) { return std::exp(x); }

template <class C>
struct Exponentials {
  C max = -std::numeric_limits<C>::infinity();
  C sum = 0;     ///< of exp(x - max); NaN if the row has NaN or +inf, or -inf alone
  C logits = 0;  ///< sum of x, where asked for
};

template <int N, class C>
__device__ __forceinline__ C max_of(const Numbers<C, N>& value, C max) {
#pragma unroll
  for (int i = 0; i < N; ++i) max = value.at[i] > max ? value.at[i] : max;  // not for NaN
  return max;
}

template <int N, class C>
__device__ __forceinline__ void add_exponentials(const Numbers<C, N>& value, C max, C& sum) {
#pragma unroll
  for (int i = 0; i < N; ++i) sum += exp_below(value.at[i] - max);
}

/// This thread's part alone, of a row that is not kept.
template <class Cut, class T>
__device__ __forceinline__ void add_online(const typename Cut::Team& team, const Row<T, Cut>& x,
                                           int64_t width, bool sum_logits, Exponentials<typename Cut::C>& e) {
  using C = typename Cut::C;
  constexpr C lowest = -std::numeric_limits<C>::infinity();
  each_pack<Cut>(team, width, [&](int k, int64_t j) {
    const Numbers<C, Cut::N> value = x(k, j);
    const C max = max_of(value, e.max);
    if (max > e.max) {
      e.sum *= exp_below(e.max - max);
      e.max = max;
    }
    add_exponentials(value, max == lowest ? C(0) : max, e.sum);  // only -inf so far: 0, not NaN
    if (sum_logits)
#pragma unroll
      for (int i = 0; i < Cut::N; ++i) e.logits += x.holds(j, i) ? value.at[i] : C(0);
  });
}

/// The row's maximum and sums, in every thread of the team.
template <class Cut, class T>
__device__ __forceinline__ Exponentials<typename Cut::C> exponentials_of(const typename Cut::Team& team,
                                                                         const Row<T, Cut>& x, int64_t width,
                                                                         bool sum_logits = false) {
  using C = typename Cut::C;
  constexpr C lowest = -std::numeric_limits<C>::infinity();
  Exponentials<C> e;
  if constexpr (Cut::K > 0)
    each_pack<Cut>(team, width, [&](int k, int64_t j) { e.max = max_of(x(k, j), e.max); });
  else
    add_online(team, x, width, sum_logits, e);
  C max[1] = {e.max};
  team.reduce(Max{}, max, lowest);
  if constexpr (Cut::K > 0)
    each_pack<Cut>(team, width, [&](int k, int64_t j) {
      const Numbers<C, Cut::N> value = x(k, j);
      add_exponentials(value, max[0], e.sum);
      if (sum_logits)
#pragma unroll
        for (int i = 0; i < Cut::N; ++i) e.logits += value.at[i];
    });
  else
    e.sum *= exp_below(e.max - max[0]);
  C sums[2] = {e.sum, e.logits};
  team.reduce(Sum{}, sums, C(0));
  return {max[0], sums[0], sums[1]};
}

}  // namespace reprise::kernels::device
