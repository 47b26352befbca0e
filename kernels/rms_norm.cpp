// Root-mean-square normalisation on the CPU. A row stays in L1 while it is read twice.
#include "reprise/kernels/rms_norm.h"

#include <cmath>

#include "reprise/kernels/row_ops.h"

namespace reprise::kernels {
namespace {

template <int L, class T, class C = Accumulator<T>>
C normalize_row(const T* x, const C* gamma, T* y, int64_t width, C eps) {
  using V = simd::Vector<C, L>;
  C squares = sum_terms<L, C>(width, [&](int64_t j, int64_t left) {
    V value = simd::load_row<C, L>(x + j, left);
    return V(value * value);
  });
  C rstd = C(1) / std::sqrt(squares / C(width) + eps);
  for_each_vector<L>(width, [&](int64_t j, int64_t left) {
    V value = simd::load_row<C, L>(x + j, left) * rstd * simd::load_row<C, L>(gamma + j, left);
    simd::store_row<C, L>(y + j, value, left);
  });
  return rstd;
}

template <class T>
void forward(const TensorView& x, const TensorView& gamma, double eps, const TensorView& y,
             const TensorView& rstd) {
  using C = Accumulator<T>;
  int64_t width = x.size(-1);
  ParameterRow<C> scale(gamma, width, C(1));
  parallel_for(rows_of(x), row_grain(width), [&](int64_t begin, int64_t end) {
    simd::run([&]<int W>() {
      constexpr int L = simd::lanes_of<T, W>;
      for (int64_t row = begin; row < end; ++row) {
        C value = normalize_row<L>(row_at<T>(x, row), scale.data(), row_at<T>(y, row), width, C(eps));
        if (rstd) static_cast<C*>(rstd.data)[row] = value;
      }
    });
  });
}

void rms_norm_cpu(const Stream&, const TensorView& x, const TensorView& gamma, double eps,
                  const TensorView& y, const TensorView& rstd) {
  constexpr auto op = "rms_norm";
  check_rows(op, "x", x);
  check_view(op, "y", y, x.shape, x.dtype);
  check_rows(op, "y", y);
  check_parameter(op, "gamma", gamma, x.size(-1));
  dispatch_floating(x.dtype, op, [&]<class T>() {
    check_statistic(op, "rstd", rstd, x, dtype_of<Accumulator<T>>);
    forward<T>(x, gamma, eps, y, rstd);
  });
}

/// One row of the backward pass; null outputs are skipped. With h = x rstd and g = dy gamma:
///   dx = rstd (g - h mean(g h)),  dgamma += dy h
template <int L, class T, class C = Accumulator<T>>
void backward_row(const T* dy, const T* x, const C* gamma, int64_t width, C rstd, T* dx, C* dgamma) {
  using V = simd::Vector<C, L>;
  C products = sum_terms<L, C>(width, [&](int64_t j, int64_t left) {
    V dgamma_term = simd::load_row<C, L>(dy + j, left) * (simd::load_row<C, L>(x + j, left) * rstd);
    if (dgamma)
      simd::store_row<C, L>(dgamma + j, V(simd::load_row<C, L>(dgamma + j, left) + dgamma_term), left);
    return V(dgamma_term * simd::load_row<C, L>(gamma + j, left));
  });
  if (!dx) return;
  C mean_gh = products / C(width);
  for_each_vector<L>(width, [&](int64_t j, int64_t left) {
    V g = simd::load_row<C, L>(dy + j, left) * simd::load_row<C, L>(gamma + j, left);
    V h = simd::load_row<C, L>(x + j, left) * rstd;
    simd::store_row<C, L>(dx + j, V((g - h * mean_gh) * rstd), left);
  });
}

template <class T>
void backward(const TensorView& dy, const TensorView& x, const TensorView& gamma, const TensorView& rstd,
              const TensorView& dx, const TensorView& dgamma) {
  using C = Accumulator<T>;
  int64_t width = x.size(-1), rows = rows_of(x);
  ParameterRow<C> scale(gamma, width, C(1));
  PartialRows<C> dgamma_rows(rows, dgamma ? width : 0);
  parallel_for(rows, dgamma_rows.grain(), [&](int64_t begin, int64_t end) {
    C* dgamma_piece = dgamma ? dgamma_rows.piece(begin) : nullptr;
    simd::run([&]<int W>() {
      constexpr int L = simd::lanes_of<T, W>;
      for (int64_t row = begin; row < end; ++row)
        backward_row<L>(row_at<T>(dy, row), row_at<T>(x, row), scale.data(), width,
                        static_cast<const C*>(rstd.data)[row], dx ? row_at<T>(dx, row) : nullptr,
                        dgamma_piece);
    });
  });
  if (dgamma) dgamma_rows.write(dgamma);
}

void rms_norm_backward_cpu(const Stream&, const TensorView& dy, const TensorView& x, const TensorView& gamma,
                           const TensorView& rstd, const TensorView& dx, const TensorView& dgamma) {
  constexpr auto op = "rms_norm_backward";
  check_rows(op, "x", x);
  check_view(op, "dy", dy, x.shape, x.dtype);
  check_rows(op, "dy", dy);
  if (dx) check_view(op, "dx", dx, x.shape, x.dtype);
  if (dx) check_rows(op, "dx", dx);
  check_parameter(op, "gamma", gamma, x.size(-1));
  check_parameter(op, "dgamma", dgamma, x.size(-1));
  check(x.numel() == 0 || bool(rstd), op, ": needs the rstd of the forward pass");
  dispatch_floating(x.dtype, op, [&]<class T>() {
    check_statistic(op, "rstd", rstd, x, dtype_of<Accumulator<T>>);
    backward<T>(dy, x, gamma, rstd, dx, dgamma);
  });
}

}  // namespace

Kernel<void(const TensorView& x, const TensorView& gamma, double eps, const TensorView& y,
            const TensorView& rstd)>
    rms_norm{"rms_norm", rms_norm_cpu};
Kernel<void(const TensorView& dy, const TensorView& x, const TensorView& gamma, const TensorView& rstd,
            const TensorView& dx, const TensorView& dgamma)>
    rms_norm_backward{"rms_norm_backward", rms_norm_backward_cpu};

}  // namespace reprise::kernels
