// What happens to the sums of a matrix multiply on their way to memory: bias, activation, residual,
// accumulation.
#pragma once

#include <cstdint>

#include "reprise/kernels/cpu/simd_rows.h"
#include "reprise/kernels/elementwise/cpu_math.h"

namespace reprise::kernels::gemm_detail {

/// Rows of stride 1 in a matrix; null if absent.
template <class T>
struct Rows {
  T* data = nullptr;
  int64_t stride = 0;
  T* at(int64_t row, int64_t column) const { return data + row * stride + column; }
};

/// The result of one matrix multiply and what the epilogue reads and writes.
template <class T>
struct Output {
  Rows<T> c;
  const T* bias = nullptr;
  Rows<T> pre_activation{};
  Rows<const T> residual{};
  Rows<const T> dactivation{};
  Activation activation = Activation::none;
  bool accumulate = false;

  T* place(int64_t row, int64_t column) const { return c.at(row, column); }
  int64_t row_stride() const { return c.stride; }
  bool plain() const {
    return !bias && !pre_activation.data && !residual.data && !dactivation.data &&
           activation == Activation::none && !accumulate;
  }
};

/// The sums v on their way to (row, column) of C, in a row that has `left` columns left.
template <int L, class T, class V>
[[gnu::always_inline]] inline V finish_sums(const Output<T>& out, V v, int64_t row, int64_t column,
                                            int64_t left) {
  using C = Accumulator<T>;
  if (out.dactivation.data) {
    V pre = simd::load_row<C, L>(out.dactivation.at(row, column), left);
    with_activation(out.activation,
                    [&]<Activation known>() { v = CpuFormulas::Activate<known>{}.gradient(v, pre); });
  } else {
    if (out.bias) v += simd::load_row<C, L>(out.bias + column, left);
    if (out.pre_activation.data) simd::store_row<C, L>(out.pre_activation.at(row, column), v, left);
    with_activation(out.activation, [&]<Activation known>() { v = CpuFormulas::Activate<known>{}(v); });
    if (out.residual.data) v += simd::load_row<C, L>(out.residual.at(row, column), left);
  }
  if (out.accumulate) v += simd::load_row<C, L>(out.c.at(row, column), left);
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
      simd::store_row<C, L>(out.c.at(row, column + j), v, columns - j);
    }
}

}  // namespace reprise::kernels::gemm_detail
