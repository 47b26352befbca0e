// Products of packed panels by the CPU's vectors: one of the units that a matrix multiply runs on (matrix.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "reprise/kernels/gemm/next_output.h"
#include "reprise/kernels/gemm/pack.h"
#include "reprise/kernels/gemm/tile.h"

namespace reprise::kernels::gemm_detail {

/// With sums of type C.
template <class C>
class VectorUnit {
 public:
  using Packed = C;
  struct Session {};  ///< what a thread holds while it packs, multiplies and writes
  static constexpr int64_t max_k_panel = 256, k_step = 16;
  static constexpr int64_t rows_at_once =
      INT64_MAX;                                     ///< of sums, that are written without a word to the unit
  static constexpr int64_t smallest_task = 1 << 18;  // multiply-adds: about 2 us of one core

  VectorUnit() {
    switch (simd::isa()) {
      case simd::Isa::avx512:
        rows_ = panel_rows<16>, columns_ = panel_columns<C, 16>;
        break;
      case simd::Isa::avx2:
        rows_ = panel_rows<8>, columns_ = panel_columns<C, 8>;
        break;
      case simd::Isa::portable:
        rows_ = panel_rows<4>, columns_ = panel_columns<C, 4>;
    }
  }

  /// The widths of a panel of A and of B.
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  static int64_t panel_size(int64_t width, int64_t k) { return panel_stride(width, k); }
  static void stay_awake() {}

  template <class A>
  void pack_a(const A& a, const PackRange& range, C* to) const {
    simd::run([&]<int W>() { pack<C, W, panel_rows<W>>(a, range, to); });
  }
  template <class B>
  void pack_b(const B& b, const PackRange& range, C* to) const {
    simd::run([&]<int W>() { pack<C, W, panel_columns<C, W>>(b, range, to); });
  }

  /// sums (+)= A B for the panels of A that hold `rows`, and the one of B that holds `columns`; the sums' rows are
  /// `columns()` apart. What is packed there is also at hand as it was.
  template <class A, class B>
  void multiply(const A&, const B&, const PackRange& rows, const PackRange& columns, const C* a, const C* b,
                C* sums, bool add, const NextOutput& next) const {
    const int64_t count = rows.rows, width = columns.rows, k = rows.k;
    simd::run([=]<int W>() {
      multiply_panels<MultiplyAdd<C>, W>(count, width, k, a, panel_stride(panel_rows<W>, k), b, sums, add,
                                         next);
    });
  }

 private:
  int64_t rows_, columns_;
};

}  // namespace reprise::kernels::gemm_detail
