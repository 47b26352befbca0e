// What happens to the sums of a matrix multiply on their way to memory: bias, activation, scales, residual,
// accumulation.
#pragma once

#include <cstdint>

#include "reprise/kernels/cpu/stored.h"
#include "reprise/kernels/elementwise/cpu_math.h"
#include "reprise/kernels/gemm/next_output.h"

namespace reprise::kernels::gemm_detail {

/// Rows of stride 1 in a matrix; none if absent.
template <class T>
struct Rows {
  Stored<T> numbers{};
  int64_t stride = 0;
  explicit operator bool() const { return bool(numbers); }
  int64_t at(int64_t row, int64_t column) const { return row * stride + column; }
};

/// The result of one matrix multiply of T and what the epilogue reads and writes.
template <class T>
struct Output {
  Rows<T> c;
  Stored<T> bias{};
  Stored<T> scale{};
  Stored<T> row_scale{};
  int64_t sample_rows = 1;  ///< that share a number of row_scale
  Rows<T> pre_activation{};
  Rows<T> residual{};
  Rows<T> dactivation{};
  Activation activation = Activation::none;
  bool accumulate = false;
  bool past_caches = false;  ///< how C and `pre_activation` are written

  /// Rows from (row, column) on, `columns` wide.
  NextOutput next(int64_t row, int64_t column, int64_t columns) const {
    NextOutput next;
    auto add = [&](const Rows<T>& rows) {
      if (rows)
        next.add((rows.numbers + rows.at(row, column)).data(), rows.numbers.size(), columns, rows.stride);
    };
    if (!past_caches) add(c), add(pre_activation);
    add(dactivation ? dactivation : residual);
    return next;
  }
  bool plain() const {
    return !bias && !scale && !row_scale && !pre_activation && !residual && !dactivation &&
           activation == Activation::none && !accumulate;
  }
};

/// The next L numbers of a row that has `left` columns left.
template <int L, class T>
[[gnu::always_inline]] inline simd::Vector<Accumulator<T>, L> load_from(const Rows<T>& rows, int64_t row,
                                                                        int64_t column, int64_t left) {
  return rows.numbers.template load<L>(rows.at(row, column), left);
}
template <int L, class T>
[[gnu::always_inline]] inline void store_to(const Rows<T>& rows, int64_t row, int64_t column,
                                            simd::Vector<Accumulator<T>, L> value, int64_t left,
                                            bool past_caches) {
  rows.numbers.template store<L>(rows.at(row, column), value, left, past_caches);
}

/// The sums v on their way to (row, column) of C, in a row that has `left` columns left.
template <int L, class T, class V>
[[gnu::always_inline]] inline V finish_sums(const Output<T>& out, V v, int64_t row, int64_t column,
                                            int64_t left) {
  if (out.dactivation) {
    V pre = load_from<L>(out.dactivation, row, column, left);
    with_activation(out.activation,
                    [&]<Activation known>() { v = CpuFormulas::Activate<known>{}.gradient(v, pre); });
  } else {
    if (out.bias) v += out.bias.template load<L>(column, left);
    if (out.pre_activation) store_to<L>(out.pre_activation, row, column, v, left, out.past_caches);
    with_activation(out.activation, [&]<Activation known>() { v = CpuFormulas::Activate<known>{}(v); });
    if (out.scale) v *= out.scale.template load<L>(column, left);
    if (out.row_scale) v *= out.row_scale[row / out.sample_rows];
    if (out.residual) v += load_from<L>(out.residual, row, column, left);
  }
  if (out.accumulate) v += load_from<L>(out.c, row, column, left);
  return v;
}

/// Writes rows x columns of sums (their rows `stride` apart) to C at (row, column).
template <int L, class T>
[[gnu::always_inline]] inline void write_sums(const Output<T>& out, const Accumulator<T>* sums,
                                              int64_t stride, int64_t row, int64_t column, int64_t rows,
                                              int64_t columns) {
  using C = Accumulator<T>;
  using V = simd::Vector<C, L>;
  const bool plain = out.plain();
  for (int64_t i = 0; i < rows; ++i, ++row)
    for (int64_t j = 0; j < columns; j += L) {
      V v = simd::load<V>(sums + i * stride + j);
      if (!plain) v = finish_sums<L>(out, v, row, column + j, columns - j);
      store_to<L>(out.c, row, column + j, v, columns - j, out.past_caches);
    }
}

}  // namespace reprise::kernels::gemm_detail
