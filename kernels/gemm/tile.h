// The register tile of the matrix multiply: a panel of rows of A times a panel of columns of B.
//
// Packed panels hold, for each k, the values of all their rows (or columns) side by side. The tile's sums
// stay in registers over the whole panel: 14 x 32 floats fill 28 of AVX-512's 32 registers, 6 x 16 12 of
// AVX2's 16, 4 x 8 8 of the 16 of plain x86-64.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "reprise/kernels/cpu/simd.h"
#include "reprise/kernels/gemm/next_output.h"

namespace reprise::kernels::gemm_detail {

/// Rows of A in a panel, where vectors hold W floats.
template <int W>
inline constexpr int panel_rows = W == 16  ? 14
                                  : W == 8 ? 6
                                           : 4;

/// Lanes of C in a vector that holds W floats, and columns of B in a panel.
template <class C, int W>
inline constexpr int lanes = W* int(sizeof(float)) / int(sizeof(C));
template <class C, int W>
inline constexpr int panel_columns = 2 * lanes<C, W>;

/// What a tile does with a packed number of A and a vector of B: `add`. This one has both in the type of the sums.
template <class C>
struct MultiplyAdd {
  using Sum = C;
  using Packed = C;
  template <class V>
  [[gnu::always_inline]] static V add(V sum, V b, C a) {
    return sum + b * a;
  }
};

/// sums[R][vectors * lanes] (+)= A B over `k` packed numbers. The panels' strides are `panel_rows` and `panel_columns`.
template <class Step, int W, int R, int vectors, class P = typename Step::Packed,
          class C = typename Step::Sum>
[[gnu::always_inline]] inline void multiply_tile(int64_t k, const P* a, const P* b, C* sums, bool add) {
  constexpr int L = lanes<C, W>, a_stride = panel_rows<W>, b_stride = panel_columns<C, W>;
  using V = simd::Vector<C, L>;
  using B = simd::Vector<P, L>;
  constexpr auto rows = std::make_index_sequence<R>();
  V total[R][vectors] = {};
  for (; k > 0; --k, a += a_stride, b += b_stride) {
    B left = simd::load<B>(b), right = simd::load<B>(b + (vectors - 1) * L);
    [&]<size_t... r>(std::index_sequence<r...>) {
      auto row = [&](P x, V* sum) {
        sum[0] = Step::add(sum[0], left, x);
        if constexpr (vectors == 2) sum[1] = Step::add(sum[1], right, x);
      };
      (row(a[r], total[r]), ...);
    }
    (rows);
  }
  auto finish = [&](C* to, V sum) { simd::store(to, add ? V(simd::load<V>(to) + sum) : sum); };
  [&]<size_t... r>(std::index_sequence<r...>) {
    (finish(sums + r * b_stride, total[r][0]), ...);
    if constexpr (vectors == 2) (finish(sums + r * b_stride + L, total[r][1]), ...);
  }
  (rows);
}

/// multiply_tile for a run-time number of rows, rounded up to an even one.
template <class Step, int W, int vectors, int R = panel_rows<W>, class P, class C>
[[gnu::always_inline]] inline void multiply_rows(int64_t rows, int64_t k, const P* a, const P* b, C* sums,
                                                 bool add) {
  if constexpr (R > 2)
    if (rows <= R - 2) return multiply_rows<Step, W, vectors, R - 2>(rows, k, a, b, sums, add);
  multiply_tile<Step, W, R, vectors>(k, a, b, sums, add);
}

/// sums (+)= A B for `count` rows in panels of A, one after the other, `a_panel` packed numbers apart, and a panel of B
/// with `columns` columns, both `k` packed numbers deep. Asks for the lines of `next`.
template <class Step, int W, class P, class C>
[[gnu::always_inline]] inline void multiply_panels(int64_t count, int64_t columns, int64_t k, const P* a,
                                                   int64_t a_panel, const P* b, C* sums, bool add,
                                                   const NextOutput& next) {
  constexpr int R = panel_rows<W>, N = panel_columns<C, W>;
  for (int64_t i = 0; i < count; i += R, a += a_panel) {
    next.prefetch(i, std::min<int64_t>(R, count - i));
    if (columns <= N / 2)
      multiply_rows<Step, W, 1>(count - i, k, a, b, sums + i * N, add);
    else
      multiply_rows<Step, W, 2>(count - i, k, a, b, sums + i * N, add);
  }
}

}  // namespace reprise::kernels::gemm_detail
