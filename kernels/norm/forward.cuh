// The forward pass of layer norm (centred) and RMS norm, with or without the sum of a residual before it:
//   s = x + residual,  y = (s - mean) * rstd * gamma + beta
// Moves x and y once, 2 * rows * width elements; with a residual 4. A row is read once where its length
// allows it to stay in registers (rows.cuh). See Note [Accurate mean] in kernels/norm/row_statistics.h.
#pragma once

#include <cmath>

#include "reprise/kernels/cuda/parameters.cuh"
#include "reprise/kernels/cuda/rows.cuh"
#include "reprise/kernels/norm/norm.h"

namespace reprise::kernels::device {

template <class T, class C>
struct NormForward {
  Rows<T> x, residual, sum, y;
  const C *gamma, *beta;  ///< (width), null for 1 and 0
  C *mean, *rstd;         ///< (rows), optional
  C eps;
  int64_t rows, width;
};

/// N numbers of a parameter, by 16-byte loads; `absent` if there is none.
template <int N, class C>
__device__ __forceinline__ Numbers<C, N> parameter_at(const C* parameter, int64_t j, C absent) {
  constexpr int M = std::min(N, pack_size<C>);
  Numbers<C, N> result;
#pragma unroll
  for (int i = 0; i < N; i += M) {
    Pack<C, M> pack;
    if (parameter) pack = load_pack<M>(parameter + j + i);
#pragma unroll
    for (int m = 0; m < M; ++m) result.at[i + m] = parameter ? pack.at[m] : absent;
  }
  return result;
}

/// Writes x + residual, rounded to what the sum holds, and goes on with what it wrote.
template <class T, class Cut>
__device__ __forceinline__ void add_residual(const typename Cut::Team& team, Row<T, Cut>& x,
                                             Pointer<const T> residual, Pointer<T> sum, int64_t width) {
  Row<T, Cut> other(team, residual, width);
  each_pack<Cut>(team, width, [&](int k, int64_t j) {
    Numbers<typename Cut::C, Cut::N> total = x(k, j), term = other(k, j);
#pragma unroll
    for (int i = 0; i < Cut::N; ++i) total.at[i] += term.at[i];
    Pack<Kept<T>, Cut::N> rounded = pack_of<T>(total);
    if constexpr (std::is_same_v<T, AnyFloat>) rounded = sum.as_stored(rounded);
    store_pack(sum + j, rounded);
    x.set(k, rounded);
  });
  x.read_from(sum);
}

template <class C>
struct RowStatistics {
  C mean, correction, rstd;  // the mean is mean + correction
};

template <bool centred, class T, class Cut>
__device__ __forceinline__ RowStatistics<typename Cut::C> statistics_of(const typename Cut::Team& team,
                                                                        const Row<T, Cut>& x, int64_t width,
                                                                        typename Cut::C eps) {
  using C = typename Cut::C;
  const C n = C(width);
  C mean[1] = {};
  if constexpr (centred) {
    each_pack<Cut>(team, width, [&](int k, int64_t j) {
      const Numbers<C, Cut::N> value = x(k, j);
#pragma unroll
      for (int i = 0; i < Cut::N; ++i) mean[0] += value.at[i];
    });
    team.reduce(Sum{}, mean, C(0));
    mean[0] /= n;
  }
  C sums[centred ? 2 : 1] = {};  // of the squares; of the deviations: the rounding error of the mean
  each_pack<Cut>(team, width, [&](int k, int64_t j) {
    const Numbers<C, Cut::N> value = x(k, j);
#pragma unroll
    for (int i = 0; i < Cut::N; ++i) {
      const C deviation = value.at[i] - mean[0];
      sums[0] = multiply_add(deviation, deviation, sums[0]);
      if constexpr (centred) sums[1] += deviation;
    }
  });
  team.reduce(Sum{}, sums, C(0));
  C correction = 0, variance = sums[0] / n;
  if constexpr (centred) {
    correction = sums[1] / n;
    variance = multiply_add(-correction, correction, variance);
    if (variance < C(0)) variance = C(0);  // by rounding; NaN stays
  }
  return {mean[0], correction, C(1) / std::sqrt(variance + eps)};
}

template <bool centred, bool residual, class Cut, class T>
__global__ void __launch_bounds__(Cut::max_block, 1) norm_forward_kernel(NormForward<T, typename Cut::C> p) {
  using C = typename Cut::C;
  REPRISE_SHARED(C, scratch, [2 * warp_threads]);
  const typename Cut::Team team(scratch);
  for (int64_t row = team.first_row(); row < p.rows; row += team.row_step()) {
    Row<T, Cut> x(team, p.x.at(row), p.width);
    if constexpr (residual) add_residual(team, x, p.residual.at(row), p.sum.at(row), p.width);
    const RowStatistics<C> s = statistics_of<centred>(team, x, p.width, p.eps);
    const Pointer<T> y = p.y.at(row);
    each_pack<Cut>(team, p.width, [&](int k, int64_t j) {
      Numbers<C, Cut::N> value = x(k, j);
      const Numbers<C, Cut::N> scale = parameter_at<Cut::N>(p.gamma, j, C(1));
      const Numbers<C, Cut::N> shift = parameter_at<Cut::N>(p.beta, j, C(0));
#pragma unroll
      for (int i = 0; i < Cut::N; ++i) {
        if constexpr (centred) value.at[i] = value.at[i] - s.mean - s.correction;
        value.at[i] = multiply_add(value.at[i] * s.rstd, scale.at[i], shift.at[i]);
      }
      store_pack(y + j, pack_of<T>(value));
    });
    if (team.thread() == 0) {
      if (p.mean) p.mean[row] = s.mean + s.correction;
      if (p.rstd) p.rstd[row] = s.rstd;
    }
  }
}

/// Checked views; mean and beta are absent for RMS norm. With rows of several dtypes T is AnyFloat.
template <bool centred, class T>
void norm_forward(const Stream& stream, const char* name, const NormArguments& v) {
  using E = Element<T>;
  using C = Accumulator<T>;
  const int64_t rows = rows_of(v.x), width = v.x.size(-1);
  if (rows == 0) return;
  ParameterRow<C> gamma(stream, v.gamma, width), beta(stream, v.beta, width);
  NormForward<E, C> p = {rows_at<T>(v.x),
                         rows_at<T>(v.residual),
                         rows_at<T>(v.sum),
                         rows_at<T>(v.y),
                         gamma.data(),
                         beta.data(),
                         data_of<C>(v.mean),
                         data_of<C>(v.rstd),
                         C(v.eps),
                         rows,
                         width};
  dispatch_rows<T, kRowColumns>(
      rows, width, fit_of_rows<T>(rows_of_norm(v)), [&]<class Cut>(const RowGrid& grid) {
        simt::Launch launch{.name = name, .grid = grid.grid, .block = grid.block, .stream = stream};
        if (v.residual)
          simt::launch(launch, norm_forward_kernel<centred, true, Cut, E>, p);
        else
          simt::launch(launch, norm_forward_kernel<centred, false, Cut, E>, p);
      });
}

}  // namespace reprise::kernels::device
