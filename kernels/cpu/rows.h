// What the CPU kernels that work row by row share: finding rows, summing along them, and parameters of one
// row in the type the kernel computes in.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "reprise/core/parallel.h"
#include "reprise/kernels/cpu/simd.h"
#include "reprise/kernels/cpu/simd_rows.h"
#include "reprise/kernels/row_checks.h"

namespace reprise::kernels {

/// Rows for one task, so that a task is some thousand elements. Depends on the width alone.
inline int64_t row_grain(int64_t width) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(width, 1)); }

/// The first element of row `row`, counted row-major.
template <class T>
T* row_at(const TensorView& x, int64_t row) {
  T* data = static_cast<T*>(x.data);
  for (int dim = x.rank() - 2; dim > 0; --dim) {
    data += row % x.shape[dim] * x.strides[dim];
    row /= x.shape[dim];
  }
  return x.rank() >= 2 ? data + row * x.strides[0] : data;
}

/// The sum over j in [0, n) of term(j, left), where term gives the vector of columns j, j + 1, ... and zeros
/// from `left` on. Four running sums hide the latency of the adds; they are joined in a fixed order.
template <int L, class C, class Term>
[[gnu::always_inline]] inline C sum_terms(int64_t n, Term&& term) {
  simd::Vector<C, L> sum[4] = {};
  int64_t j = 0;
  for (; j + 4 * L <= n; j += 4 * L) {
    sum[0] += term(j, L);
    sum[1] += term(j + L, L);
    sum[2] += term(j + 2 * L, L);
    sum[3] += term(j + 3 * L, L);
  }
  for (; j + L <= n; j += L) sum[0] += term(j, L);
  if (j < n) sum[1] += term(j, n - j);
  return simd::sum_lanes<L, C>((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/// Calls body(j, left) for each vector of n columns; `left` is L, or less for the last.
template <int L, class Body>
[[gnu::always_inline]] inline void for_each_vector(int64_t n, Body&& body) {
  int64_t j = 0;
  for (; j + L <= n; j += L) body(j, L);
  if (j < n) body(j, n - j);
}

/// sum = x + y, rounded to T; sum may be x or y.
template <int L, class T>
void add_rows(const T* x, const T* y, T* sum, int64_t width) {
  using C = Accumulator<T>;
  for_each_vector<L>(width, [&](int64_t j, int64_t left) {
    simd::store_row<C, L>(
        sum + j, simd::Vector<C, L>(simd::load_row<C, L>(x + j, left) + simd::load_row<C, L>(y + j, left)),
        left);
  });
}

/// A parameter of one row as contiguous numbers of type C: the memory itself where that is what it holds.
template <class C>
class ParameterRow {
 public:
  /// An absent parameter reads as `absent` everywhere.
  ParameterRow(const TensorView& x, int64_t width, C absent) {
    if (x && x.dtype == dtype_of<C> && (x.strides[0] == 1 || width <= 1)) {
      data_ = static_cast<const C*>(x.data);
      return;
    }
    copy_.assign(size_t(width), absent);
    data_ = copy_.data();
    if (!x) return;
    dispatch_floating(x.dtype, "parameter", [&]<class T>() {
      for (int64_t j = 0; j < width; ++j) copy_[size_t(j)] = C(x.as<T>()[j * x.strides[0]]);
    });
  }
  const C* data() const { return data_; }

 private:
  std::vector<C> copy_;
  const C* data_;
};

/// Sums over rows, such as the gradient of a parameter: rows are cut into pieces by their number alone, each
/// piece has a partial row, and the partial rows are added in order.
template <class C>
class PartialRows {
 public:
  PartialRows(int64_t rows, int64_t width)
      : width_(width),
        grain_(std::max<int64_t>(8, (rows + 31) / 32)),
        sums_(size_t((rows + grain_ - 1) / grain_ * width)) {}

  int64_t grain() const { return grain_; }
  /// The partial row of the piece that starts at `row`.
  C* piece(int64_t row) { return sums_.data() + row / grain_ * width_; }

  /// Writes the sums to y (width), cast; does nothing if y is absent.
  void write(const TensorView& y) const {
    if (!y) return;
    std::vector<C> total(size_t(width_), C(0));
    for (size_t piece = 0; piece < sums_.size(); piece += size_t(width_))
      for (size_t j = 0; j < size_t(width_); ++j) total[j] += sums_[piece + j];
    dispatch_floating(y.dtype, "parameter", [&]<class T>() {
      for (int64_t j = 0; j < width_; ++j) y.as<T>()[j * y.strides[0]] = T(total[size_t(j)]);
    });
  }

 private:
  int64_t width_, grain_;
  std::vector<C> sums_;
};

}  // namespace reprise::kernels
