// Root-mean-square normalisation on the CPU. A row stays in L1 while it is read twice.
#include "reprise/kernels/norm/rms_norm.h"

#include <cmath>

#include "reprise/kernels/cpu/row_access.h"
#include "reprise/kernels/norm/norm_rows.h"

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
void forward(const NormArguments& v) {
  using C = Accumulator<T>;
  int64_t width = v.x.size(-1);
  ParameterRow<C> scale(v.gamma, width, C(1));
  parallel_for(rows_of(v.x), row_grain(width), [&](int64_t begin, int64_t end) {
    NormRows<T> rows(v);
    RowWriter<T> y(v.y, width);
    simd::run([&]<int W>() {
      constexpr int L = simd::lanes_of<T, W>;
      for (int64_t row = begin; row < end; ++row) {
        C value = normalize_row<L>(rows.template at<L>(row), scale.data(), y.at(row), width, C(v.eps));
        y.template commit<L>(row);
        if (v.rstd) static_cast<C*>(v.rstd.data)[row] = value;
      }
    });
  });
}

void rms_norm_cpu(const Stream&, const NormArguments& v) {
  const char* op = check_norm(v, false);
  dispatch_floating(arithmetic_dtype(rows_of_norm(v)), op, [&]<class T>() { forward<T>(v); });
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
void backward(const NormBackwardArguments& v) {
  using C = Accumulator<T>;
  int64_t width = v.x.size(-1), rows = rows_of(v.x);
  ParameterRow<C> scale(v.gamma, width, C(1));
  PartialRows<C> dgamma_rows(rows, v.dgamma ? width : 0);
  parallel_for(rows, dgamma_rows.grain(), [&](int64_t begin, int64_t end) {
    C* dgamma_piece = v.dgamma ? dgamma_rows.piece(begin) : nullptr;
    RowReader<T> dy(v.dy, width), x(v.x, width);
    AddedRows<T> dx(v);
    simd::run([&]<int W>() {
      constexpr int L = simd::lanes_of<T, W>;
      for (int64_t row = begin; row < end; ++row) {
        backward_row<L>(dy.template at<L>(row), x.template at<L>(row), scale.data(), width,
                        static_cast<const C*>(v.rstd.data)[row], dx.template at<L>(row), dgamma_piece);
        dx.template commit<L>(row);
      }
    });
  });
  if (v.dgamma) dgamma_rows.write(v.dgamma);
}

void rms_norm_backward_cpu(const Stream&, const NormBackwardArguments& v) {
  check_norm_backward("rms_norm_backward", v, false);
  dispatch_floating(arithmetic_dtype(rows_of_norm(v)), "rms_norm_backward",
                    [&]<class T>() { backward<T>(v); });
}

}  // namespace

decltype(rms_norm) rms_norm{"rms_norm", rms_norm_cpu};
decltype(rms_norm_backward) rms_norm_backward{"rms_norm_backward", rms_norm_backward_cpu};

}  // namespace reprise::kernels
