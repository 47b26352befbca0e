// The mean and the variance of a row on the CPU. Note [Accurate mean] The variance is summed from x - mean,
// never as E[x^2] - mean^2, which loses all digits where the mean is large. The rounding error of the mean
// itself is summed beside it and taken off again (Chan, Golub and LeVeque 1983, the corrected two-pass
// algorithm).
#pragma once

#include <cmath>

#include "reprise/kernels/cpu/rows.h"

namespace reprise::kernels {

template <class C>
struct RowStatistics {
  C mean, correction, rstd;  // the mean is mean + correction
};

template <int L, class T, class C = Accumulator<T>>
RowStatistics<C> statistics_of(const T* x, int64_t width, C eps) {
  using V = simd::Vector<C, L>;
  C n = C(width);
  C mean =
      sum_terms<L, C>(width, [&](int64_t j, int64_t left) { return simd::load_row<C, L>(x + j, left); }) / n;
  V deviations{};
  C squares = sum_terms<L, C>(width, [&](int64_t j, int64_t left) {
    V deviation = simd::load_row<C, L>(x + j, left, mean) - mean;
    deviations += deviation;
    return V(deviation * deviation);
  });
  C correction = simd::sum_lanes<L, C>(deviations) / n;
  C variance = std::max(C(0), squares / n - correction * correction);
  return {mean, correction, C(1) / std::sqrt(variance + eps)};
}

}  // namespace reprise::kernels
