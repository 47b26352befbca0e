// Layer normalisation on the CPU. A row stays in L1 while it is read for its mean, its variance and its
// result. Note [Accurate mean] The variance is summed from x - mean, never as E[x^2] - mean^2, which loses
// all digits where the mean is large. The rounding error of the mean itself is summed beside it and taken off
// again (Chan, Golub and LeVeque 1983, the corrected two-pass algorithm).
#include "reprise/kernels/norm/layer_norm.h"

#include <cmath>

#include "reprise/kernels/cpu/rows.h"
#include "reprise/kernels/norm/views.h"

namespace reprise::kernels {
namespace {

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

template <int L, class T, class C = Accumulator<T>>
void normalize_row(const T* x, T* y, const C* gamma, const C* beta, int64_t width,
                   const RowStatistics<C>& row) {
  for_each_vector<L>(width, [&](int64_t j, int64_t left) {
    auto value = (simd::load_row<C, L>(x + j, left) - row.mean - row.correction) * row.rstd;
    value = value * simd::load_row<C, L>(gamma + j, left) + simd::load_row<C, L>(beta + j, left);
    simd::store_row<C, L>(y + j, value, left);
  });
}

template <class T>
void forward(const NormViews& v, double eps) {
  using C = Accumulator<T>;
  int64_t width = v.x.size(-1);
  ParameterRow<C> scale(v.gamma, width, C(1)), shift(v.beta, width, C(0));
  parallel_for(rows_of(v.x), row_grain(width), [&](int64_t begin, int64_t end) {
    simd::run([&]<int W>() {
      constexpr int L = simd::lanes_of<T, W>;
      for (int64_t row = begin; row < end; ++row) {
        const T* from = row_at<T>(v.x, row);
        if (v.residual) {
          T* sum = row_at<T>(v.sum, row);
          add_rows<L>(from, row_at<const T>(v.residual, row), sum, width);
          from = sum;
        }
        RowStatistics<C> statistics = statistics_of<L>(from, width, C(eps));
        normalize_row<L>(from, row_at<T>(v.y, row), scale.data(), shift.data(), width, statistics);
        if (v.mean) static_cast<C*>(v.mean.data)[row] = statistics.mean + statistics.correction;
        if (v.rstd) static_cast<C*>(v.rstd.data)[row] = statistics.rstd;
      }
    });
  });
}

void forward_checked(const char* op, const NormViews& views, double eps) {
  check_norm(op, views);
  dispatch_floating(views.x.dtype, op, [&]<class T>() { forward<T>(views, eps); });
}

void layer_norm_cpu(const Stream&, const TensorView& x, const TensorView& gamma, const TensorView& beta,
                    double eps, const TensorView& y, const TensorView& mean, const TensorView& rstd) {
  const TensorView none;
  forward_checked("layer_norm", {x, none, gamma, beta, none, y, mean, rstd}, eps);
}

void add_layer_norm_cpu(const Stream&, const TensorView& x, const TensorView& residual,
                        const TensorView& gamma, const TensorView& beta, double eps, const TensorView& sum,
                        const TensorView& y, const TensorView& mean, const TensorView& rstd) {
  forward_checked("add_layer_norm", {x, residual, gamma, beta, sum, y, mean, rstd}, eps);
}

/// One row of the backward pass; null outputs are skipped. With h = (x - mean) rstd and g = dy gamma:
///   dx = rstd (g - mean(g) - h mean(g h)),  dgamma += dy h,  dbeta += dy
template <int L, class T, class C = Accumulator<T>>
void backward_row(const T* dy, const T* x, const C* gamma, int64_t width, C mean, C rstd, T* dx, C* dgamma,
                  C* dbeta) {
  using V = simd::Vector<C, L>;
  auto load_dy = [&](int64_t j, int64_t left) { return simd::load_row<C, L>(dy + j, left); };
  auto load_h = [&](int64_t j, int64_t left) {
    return V((simd::load_row<C, L>(x + j, left, mean) - mean) * rstd);
  };
  V products{};
  C sum = sum_terms<L, C>(width, [&](int64_t j, int64_t left) {
    V gradient = load_dy(j, left), h = load_h(j, left);
    if (dgamma) {
      simd::store_row<C, L>(dgamma + j, V(simd::load_row<C, L>(dgamma + j, left) + gradient * h), left);
      simd::store_row<C, L>(dbeta + j, V(simd::load_row<C, L>(dbeta + j, left) + gradient), left);
    }
    V g = gradient * simd::load_row<C, L>(gamma + j, left);
    products += g * h;
    return g;
  });
  if (!dx) return;
  C mean_g = sum / C(width), mean_gh = simd::sum_lanes<L, C>(products) / C(width);
  for_each_vector<L>(width, [&](int64_t j, int64_t left) {
    V g = load_dy(j, left) * simd::load_row<C, L>(gamma + j, left);
    simd::store_row<C, L>(dx + j, V((g - mean_g - load_h(j, left) * mean_gh) * rstd), left);
  });
}

template <class T>
void backward(const TensorView& dy, const TensorView& x, const TensorView& gamma, const TensorView& mean,
              const TensorView& rstd, const TensorView& dx, const TensorView& dgamma,
              const TensorView& dbeta) {
  using C = Accumulator<T>;
  int64_t width = x.size(-1), rows = rows_of(x);
  bool sums = dgamma || dbeta;
  ParameterRow<C> scale(gamma, width, C(1));
  PartialRows<C> dgamma_rows(rows, sums ? width : 0), dbeta_rows(rows, sums ? width : 0);
  parallel_for(rows, dgamma_rows.grain(), [&](int64_t begin, int64_t end) {
    C* dgamma_piece = sums ? dgamma_rows.piece(begin) : nullptr;
    C* dbeta_piece = sums ? dbeta_rows.piece(begin) : nullptr;
    simd::run([&]<int W>() {
      constexpr int L = simd::lanes_of<T, W>;
      for (int64_t row = begin; row < end; ++row)
        backward_row<L>(row_at<T>(dy, row), row_at<T>(x, row), scale.data(), width,
                        static_cast<const C*>(mean.data)[row], static_cast<const C*>(rstd.data)[row],
                        dx ? row_at<T>(dx, row) : nullptr, dgamma_piece, dbeta_piece);
    });
  });
  if (dgamma) dgamma_rows.write(dgamma);
  if (dbeta) dbeta_rows.write(dbeta);
}

void layer_norm_backward_cpu(const Stream&, const TensorView& dy, const TensorView& x,
                             const TensorView& gamma, const TensorView& mean, const TensorView& rstd,
                             const TensorView& dx, const TensorView& dgamma, const TensorView& dbeta) {
  constexpr auto op = "layer_norm_backward";
  check_norm_backward(op, {dy, x, gamma, mean, rstd, dx, dgamma, dbeta}, true);
  dispatch_floating(x.dtype, op,
                    [&]<class T>() { backward<T>(dy, x, gamma, mean, rstd, dx, dgamma, dbeta); });
}

}  // namespace

Kernel<void(const TensorView& x, const TensorView& gamma, const TensorView& beta, double eps,
            const TensorView& y, const TensorView& mean, const TensorView& rstd)>
    layer_norm{"layer_norm", layer_norm_cpu};
Kernel<void(const TensorView& x, const TensorView& residual, const TensorView& gamma, const TensorView& beta,
            double eps, const TensorView& sum, const TensorView& y, const TensorView& mean,
            const TensorView& rstd)>
    add_layer_norm{"add_layer_norm", add_layer_norm_cpu};
Kernel<void(const TensorView& dy, const TensorView& x, const TensorView& gamma, const TensorView& mean,
            const TensorView& rstd, const TensorView& dx, const TensorView& dgamma, const TensorView& dbeta)>
    layer_norm_backward{"layer_norm_backward", layer_norm_backward_cpu};

}  // namespace reprise::kernels
