// What attention's forward and backward share: blocks of 64 queries or keys copied to contiguous, zero-padded
// buffers, and small matrix products on them. A product is computed by tiles of 4 rows x 4 vectors that stay
// in registers; each element is one chain of multiply-adds in the order of the sum, so results do not depend
// on tiling.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "reprise/core/dtype.h"
#include "reprise/kernels/attention/problem.h"
#include "reprise/kernels/cpu/simd.h"
#include "reprise/kernels/cpu/simd_math.h"
#include "reprise/kernels/cpu/simd_random.h"
#include "reprise/kernels/cpu/simd_rows.h"

namespace reprise::kernels::attention_detail {

/// Queries or keys of a block.
inline constexpr int64_t kBlock = 64;

inline int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

/// Columns of a packed head: whole vectors, and whole groups of four for products that have them as rows.
template <int L>
int64_t padded_width(int64_t head_dim) {
  return round_up(head_dim, std::max(L, 4));
}

/// One head of a (B, H, T, D) view: rows of D values with stride 1.
template <class T>
struct Rows {
  T* data;
  int64_t stride;
  Rows(const TensorView& view, int64_t b, int64_t h)
      : data(view.numel() == 0 ? nullptr : view.as<T>() + b * view.stride(0) + h * view.stride(1)),
        stride(view.stride(2)) {}
  Rows(T* the_data, int64_t the_stride) : data(the_data), stride(the_stride) {}
  T* operator[](int64_t row) const { return data + row * stride; }
};

/// L times all bits, then L times none.
template <class Int, int L>
inline constexpr auto kLaneMasks = [] {
  std::array<Int, 2 * L> masks{};
  for (size_t i = 0; i < L; ++i) masks[i] = Int(-1);
  return masks;
}();

/// All bits in the first `count` lanes, none in the others.
template <class V>
auto first_lanes(int64_t count) {
  using Mask = decltype(V{} < V{});
  constexpr int L = sizeof(V) / sizeof(simd::Lane<V>);
  return simd::load<Mask>(kLaneMasks<simd::Lane<Mask>, L>.data() + L - std::clamp<int64_t>(count, 0, L));
}

/// Starts to fetch rows that will be packed soon: they lie pages apart, where the CPU does not look ahead
/// itself.
template <class T>
void prefetch_rows(const Rows<T>& from, int64_t first, int64_t end, int64_t cols) {
  for (int64_t r = first; r < end; ++r)
    for (int64_t j = 0; j < cols; j += 64 / int64_t(sizeof(T))) __builtin_prefetch(from[r] + j);
}

/// Copies `rows` rows of `cols` values times `scale`; `to` has rows of `to_stride`, a multiple of L, and is
/// padded with zeros up to there and to a multiple of four rows.
template <class C, int L, class T>
void pack_rows(const Rows<T>& from, int64_t first, int64_t rows, int64_t cols, C scale, C* to,
               int64_t to_stride) {
  using V = simd::Vector<C, L>;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < to_stride; j += L)
      simd::store(to + r * to_stride + j, simd::load_row<C, L>(from[first + r] + j, cols - j) * scale);
  for (int64_t r = rows; r < round_up(rows, 4); ++r)
    for (int64_t j = 0; j < to_stride; j += L) simd::store(to + r * to_stride + j, V{});
}

/// One step of a transpose in registers: swaps the off-diagonal H x H quarters of each 2H x 2H square.
template <int H, class V, size_t... J>
void swap_quarters(V& a, V& b, std::index_sequence<J...>) {
  constexpr int L = sizeof...(J);
  V low = __builtin_shufflevector(a, b, (int(J) & H ? L + int(J) - H : int(J))...);
  b = __builtin_shufflevector(a, b, (int(J) & H ? L + int(J) : int(J) + H)...);
  a = low;
}

template <int H, class V, int L>
void transpose_square(V (&rows)[L]) {
  for (int i = 0; i < L; ++i)
    if (!(i & H)) swap_quarters<H>(rows[i], rows[i + H], std::make_index_sequence<L>());
  if constexpr (H > 1) transpose_square<H / 2>(rows);
}

/// Like pack_rows, but transposed: to[j * kBlock + r] = scale * from[first + r][j], with zeros for rows up to
/// a multiple of L and for columns up to `padded_cols`, a multiple of L.
template <class C, int L, class T>
void pack_columns(const Rows<T>& from, int64_t first, int64_t rows, int64_t cols, C scale, C* to,
                  int64_t padded_cols) {
  using V = simd::Vector<C, L>;
  for (int64_t r = 0; r < rows; r += L)
    for (int64_t j = 0; j < padded_cols; j += L) {
      V square[L];
      for (int i = 0; i < L; ++i)
        square[i] = r + i < rows ? simd::load_row<C, L>(from[first + r + i] + j, cols - j) * scale : V{};
      transpose_square<L / 2>(square);
      for (int i = 0; i < L; ++i) simd::store(to + (j + i) * kBlock + r, square[i]);
    }
}

/// Writes `rows` rows of `from` times `scale` as rows `first` and on.
template <int L, class C, class T>
void write_rows(const C* from, int64_t from_stride, const Rows<T>& to, int64_t first, int64_t rows,
                int64_t cols, C scale) {
  using V = simd::Vector<C, L>;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < cols; j += L)
      simd::store_row<C, L>(to[first + r] + j, V(simd::load<V>(from + r * from_stride + j) * scale),
                            cols - j);
}

/// The same from columns of `from`, which has `padded_cols` rows of kBlock, a multiple of L; scale(v) is that of
/// vector v of the rows.
template <int L, class C, class T, class Scale>
void write_columns(const C* from, int64_t padded_cols, const Rows<T>& to, int64_t first, int64_t rows,
                   int64_t cols, Scale&& scale) {
  using V = simd::Vector<C, L>;
  for (int64_t r = 0; r < rows; r += L)
    for (int64_t j = 0; j < padded_cols; j += L) {
      V square[L];
      for (int i = 0; i < L; ++i) square[i] = simd::load<V>(from + (j + i) * kBlock + r) * scale(r / L);
      transpose_square<L / 2>(square);
      for (int i = 0; i < L && r + i < rows; ++i)
        simd::store_row<C, L>(to[first + r + i] + j, square[i], cols - j);
    }
}

/// C = A B or C += A B for row-major B and C, and A of any strides.
template <class C>
struct Product {
  const C* a;
  int64_t a_row, a_stride;
  const C* b;
  int64_t b_row;
  C* c;
  int64_t c_row;
};

/// Four rows times N vectors of C, over `count` steps of the sum.
template <int N, int L, class C>
void multiply_tile(const Product<C>& p, int64_t count, bool accumulate) {
  using V = simd::Vector<C, L>;
  V sum[4][N];
  for (int i = 0; i < 4; ++i)
    for (int n = 0; n < N; ++n) sum[i][n] = accumulate ? simd::load<V>(p.c + i * p.c_row + n * L) : V{};
  const C* a = p.a;
  const C* b = p.b;
  for (int64_t step = 0; step < count; ++step, a += p.a_stride, b += p.b_row) {
    V right[N];
    for (int n = 0; n < N; ++n) right[n] = simd::load<V>(b + n * L);
    for (int i = 0; i < 4; ++i)
      for (int n = 0; n < N; ++n) sum[i][n] += a[i * p.a_row] * right[n];
  }
  for (int i = 0; i < 4; ++i)
    for (int n = 0; n < N; ++n) simd::store(p.c + i * p.c_row + n * L, sum[i][n]);
}

/// Half-open ranges of a product's sum and of C's columns, counted in vectors.
struct Extent {
  int64_t first_step, end_step, first_vector, end_vector;
};

/// Rows [row, row + 4) of C within the extent.
template <int L, class C>
void multiply_rows(Product<C> p, int64_t row, Extent extent, bool accumulate) {
  constexpr int N = L * sizeof(C) == 64 ? 4 : 2;  // with 32 registers, or with 16
  int64_t count = extent.end_step - extent.first_step;
  p.a += row * p.a_row + extent.first_step * p.a_stride;
  p.b += extent.first_step * p.b_row;
  p.c += row * p.c_row;
  const C* b = p.b;
  C* c = p.c;
  for (int64_t v = extent.first_vector; v < extent.end_vector; v += N) {
    p.b = b + v * L;
    p.c = c + v * L;
    switch (std::min<int64_t>(N, extent.end_vector - v)) {
      case 1:
        multiply_tile<1, L>(p, count, accumulate);
        break;
      case 2:
        multiply_tile<2, L>(p, count, accumulate);
        break;
      case 3:
        multiply_tile<N == 4 ? 3 : 1, L>(p, count, accumulate);
        break;
      default:
        multiply_tile<N, L>(p, count, accumulate);
    }
  }
}

/// What dropout multiplies probabilities by, 0 or 1 / (1 - p), for a block of queries and keys of head `head`
/// of (B, H), as rows of kBlock keys, with zeros below. Element (b, h, i, j) is kept if its Philox draw is at least p.
template <class C, int L>
void dropout_factors(const Problem& problem, int64_t head, int64_t first_query, int64_t queries,
                     int64_t first_key, C* factors) {
  constexpr int W = L * int(sizeof(C) / 4);
  C kept = C(1 / (1 - problem.dropout)), row[kBlock + 8 * W];
  uint32_t threshold = dropout_threshold(problem);
  for (int64_t i = 0; i < queries; ++i) {
    auto index = uint64_t((head * problem.queries + first_query + i) * problem.keys + first_key);
    int64_t skipped = int64_t(index % 4);
    for (int64_t j = 0; j < skipped + kBlock; j += 4 * W) {
      simd::Vector<uint32_t, W> draws[4];
      simd::philox_draws<W>(problem.seed, problem.offset, (index + uint64_t(j)) / 4, draws);
      for (int n = 0; n < 4; ++n)
        for (int lane = 0; lane < W; ++lane)
          row[j + n * W + lane] = (draws[n][lane] >> 8) < threshold ? C(0) : kept;
    }
    for (int64_t j = 0; j < kBlock; j += L)
      simd::store(factors + i * kBlock + j, simd::load<simd::Vector<C, L>>(row + skipped + j));
  }
  std::fill(factors + queries * kBlock, factors + kBlock * kBlock, C(0));
}

}  // namespace reprise::kernels::attention_detail
