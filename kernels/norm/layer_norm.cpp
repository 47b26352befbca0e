// Layer normalisation on the CPU. A row stays in L1 while it is read for its mean, its variance and its
// result.
#include "reprise/kernels/norm/layer_norm.h"

#include "reprise/kernels/cpu/row_access.h"
#include "reprise/kernels/norm/norm_rows.h"
#include "reprise/kernels/norm/row_statistics.h"

namespace reprise::kernels {
namespace {

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
void forward(const NormArguments& v) {
  using C = Accumulator<T>;
  int64_t width = v.x.size(-1);
  ParameterRow<C> scale(v.gamma, width, C(1)), shift(v.beta, width, C(0));
  parallel_for(rows_of(v.x), row_grain(width), [&](int64_t begin, int64_t end) {
    NormRows<T> rows(v);
    RowWriter<T> y(v.y, width);
    simd::run([&]<int W>() {
      constexpr int L = simd::lanes_of<T, W>;
      for (int64_t row = begin; row < end; ++row) {
        const T* from = rows.template at<L>(row);
        RowStatistics<C> statistics = statistics_of<L>(from, width, C(v.eps));
        normalize_row<L>(from, y.at(row), scale.data(), shift.data(), width, statistics);
        y.template commit<L>(row);
        if (v.mean) static_cast<C*>(v.mean.data)[row] = statistics.mean + statistics.correction;
        if (v.rstd) static_cast<C*>(v.rstd.data)[row] = statistics.rstd;
      }
    });
  });
}

void layer_norm_cpu(const Stream&, const NormArguments& v) {
  const char* op = check_norm(v, true);
  dispatch_floating(arithmetic_dtype(rows_of_norm(v)), op, [&]<class T>() { forward<T>(v); });
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
void backward(const NormBackwardArguments& v) {
  using C = Accumulator<T>;
  int64_t width = v.x.size(-1), rows = rows_of(v.x);
  bool sums = v.dgamma || v.dbeta;
  ParameterRow<C> scale(v.gamma, width, C(1));
  PartialRows<C> dgamma_rows(rows, sums ? width : 0), dbeta_rows(rows, sums ? width : 0);
  parallel_for(rows, dgamma_rows.grain(), [&](int64_t begin, int64_t end) {
    C* dgamma_piece = sums ? dgamma_rows.piece(begin) : nullptr;
    C* dbeta_piece = sums ? dbeta_rows.piece(begin) : nullptr;
    RowReader<T> dy(v.dy, width), x(v.x, width);
    AddedRows<T> dx(v);
    simd::run([&]<int W>() {
      constexpr int L = simd::lanes_of<T, W>;
      for (int64_t row = begin; row < end; ++row) {
        backward_row<L>(dy.template at<L>(row), x.template at<L>(row), scale.data(), width,
                        static_cast<const C*>(v.mean.data)[row], static_cast<const C*>(v.rstd.data)[row],
                        dx.template at<L>(row), dgamma_piece, dbeta_piece);
        dx.template commit<L>(row);
      }
    });
  });
  if (v.dgamma) dgamma_rows.write(v.dgamma);
  if (v.dbeta) dbeta_rows.write(v.dbeta);
}

void layer_norm_backward_cpu(const Stream&, const NormBackwardArguments& v) {
  check_norm_backward("layer_norm_backward", v, true);
  dispatch_floating(arithmetic_dtype(rows_of_norm(v)), "layer_norm_backward",
                    [&]<class T>() { backward<T>(v); });
}

}  // namespace

decltype(layer_norm) layer_norm{"layer_norm", layer_norm_cpu};
decltype(layer_norm_backward) layer_norm_backward{"layer_norm_backward", layer_norm_backward_cpu};

}  // namespace reprise::kernels
