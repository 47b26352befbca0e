// Products with few rows, where each number of B is used so seldom that packing it would cost more than the product: B is
// read once, as it lies, at the speed of memory. That is what generating a token takes: y = x W^T for one x, or some.
//
// A sum is made of a partial sum for each lane of four vectors, joined in a fixed order: other bits than those of a product
// that has more rows, the same for any number of threads and of rows up to `most_rows`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "reprise/core/parallel.h"
#include "reprise/kernels/gemm/epilogue.h"
#include "reprise/kernels/gemm/pack.h"

namespace reprise::kernels::gemm_detail {

class FewRows {
 public:
  static constexpr int64_t most_rows = 4;

  /// Whether both operands are read along K, and B is large enough for it to matter.
  template <class T>
  static bool suits(const PackSource<T>& a, const PackSource<T>& b, int64_t m, int64_t n, int64_t k) {
    return m <= most_rows && k >= 64 && n >= 16 && a.k_stride == 1 && b.k_stride == 1;
  }

  /// out = A B.
  template <class T>
  static void multiply(const PackSource<T>& a, const PackSource<T>& b, const Output<T>& out, int64_t m,
                       int64_t n, int64_t k) {
    using C = Accumulator<T>;
    std::vector<C> rows(size_t(m * k));
    for (int64_t r = 0; r < m; ++r)
      for (int64_t i = 0; i < k; ++i) rows[size_t(r * k + i)] = C(a.data[r * a.stride + i]);
    const int64_t strips = (n + strip - 1) / strip;
    parallel_for(strips, std::max<int64_t>(1, (int64_t(1) << 18) / (strip * k)),
                 [&](int64_t begin, int64_t end) {
                   simd::run([&]<int W>() {
                     constexpr int L = simd::lanes_of<T, W>;
                     alignas(64) C sums[most_rows * strip + L] = {};
                     for (int64_t i = begin; i < end; ++i) {
                       const int64_t column = i * strip, columns = std::min(strip, n - column);
                       for (int64_t j = 0; j < columns; ++j)
                         add_column<L>(rows.data(), b.data + (column + j) * b.stride, m, k, sums + j);
                       write_sums<L>(out, sums, strip, 0, column, m, columns);
                     }
                   });
                 });
  }

 private:
  static constexpr int64_t strip = 32;

  /// sums[r * strip] = row r times one column of B.
  template <int L, class T, class C>
  [[gnu::always_inline]] static void add_column(const C* rows, const T* column, int64_t m, int64_t k,
                                                C* sums) {
    switch (m) {
      case 1:
        return dot<1, L>(rows, column, k, sums);
      case 2:
        return dot<2, L>(rows, column, k, sums);
      case 3:
        return dot<3, L>(rows, column, k, sums);
      default:
        return dot<4, L>(rows, column, k, sums);
    }
  }

  /// Four vectors at a time, so that memory is read in one stream and additions wait for none before.
  template <int R, int L, class T, class C>
  [[gnu::always_inline]] static void dot(const C* rows, const T* column, int64_t k, C* sums) {
    using V = simd::Vector<C, L>;
    constexpr int at_once = 4;
    constexpr int64_t ahead = 4096 / int64_t(sizeof(T));  // of columns behind this one: memory is late
    V partial[R][at_once] = {};
    int64_t i = 0;
    for (; i + at_once * L <= k; i += at_once * L)
      for (int u = 0; u < at_once; ++u) {
        __builtin_prefetch(column + i + u * L + ahead);
        const V y = simd::load_row<C, L>(column + i + u * L, L);
        for (int r = 0; r < R; ++r) partial[r][u] += simd::load<V>(rows + r * k + i + u * L) * y;
      }
    for (; i < k; i += L)
      for (int r = 0; r < R; ++r)
        partial[r][0] +=
            simd::load_row<C, L>(rows + r * k + i, k - i) * simd::load_row<C, L>(column + i, k - i);
    for (int r = 0; r < R; ++r)
      sums[r * strip] =
          simd::sum_lanes<L, C>(V((partial[r][0] + partial[r][1]) + (partial[r][2] + partial[r][3])));
  }
};

}  // namespace reprise::kernels::gemm_detail
