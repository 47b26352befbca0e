// Packing of an operand of the matrix multiply into panels, whatever its strides and dtype, for the bodies of
// `simd::run`. A panel holds `width` rows of A (or columns of B) as to[k * width + row], rows past the end as
// zeros.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "reprise/core/dtype.h"
#include "reprise/kernels/convert.h"
#include "reprise/kernels/cpu/simd_rows.h"

namespace reprise::kernels::gemm_detail {

/// A matrix to pack: `stride` between the rows that lie side by side in a panel, `k_stride` along the summed
/// dimension.
template <class T>
struct PackSource {
  const T* data;
  int64_t stride;
  int64_t k_stride;
};

/// Values from one panel to the next: whole lines, with room for one vector more, because a store of whole
/// vectors runs over the end of a panel whose width is not a multiple of the lanes.
inline int64_t panel_stride(int64_t width, int64_t k) { return (width * k + 31) / 16 * 16; }

template <int distance, class V, size_t... i>
[[gnu::always_inline]] inline void exchange(V& low, V& high, std::index_sequence<i...>) {
  constexpr int lanes = sizeof...(i), d = distance;
  V a = low, b = high;
  low = __builtin_shufflevector(a, b, (int(i) & d ? int(i) - d + lanes : int(i))...);
  high = __builtin_shufflevector(a, b, (int(i) & d ? int(i) + lanes : int(i) + d)...);
}

template <int distance, class V, size_t... i>
[[gnu::always_inline]] inline void exchange_all(V* rows, std::index_sequence<i...> lanes) {
  ((int(i) & distance ? void() : exchange<distance>(rows[i], rows[(i + distance) % sizeof...(i)], lanes)),
   ...);
}

/// Transposes L vectors of L lanes: blocks of halving size are exchanged across the diagonal.
template <int L, int distance = L / 2, class V>
[[gnu::always_inline]] inline void transpose_square(V* rows) {
  if constexpr (distance > 0) {
    exchange_all<distance>(rows, std::make_index_sequence<L>());
    transpose_square<L, distance / 2>(rows);
  }
}

/// One panel from any strides.
template <class C, int width, class T>
[[gnu::always_inline]] inline void pack_strided(const PackSource<T>& from, int64_t rows, int64_t k, C* to) {
  for (int64_t p = 0; p < k; ++p)
    for (int64_t i = 0; i < width; ++i)
      to[p * width + i] = i < rows ? convert<C>(from.data[i * from.stride + p * from.k_stride]) : C(0);
}

template <class C, int L, class T>
[[gnu::always_inline]] inline simd::Vector<C, L> load_and_prefetch(const T* from) {
  __builtin_prefetch(from + 4 * L);
  return simd::load_row<C, L>(from, L);
}

/// L deep, `rows` <= L rows that are contiguous along k. Stores whole vectors: lanes past `rows` are zeros.
template <class C, int L, int rows, int width, class T, size_t... i>
[[gnu::always_inline]] inline void pack_square(const T* from, int64_t stride, C* to,
                                               std::index_sequence<i...>) {
  using V = simd::Vector<C, L>;
  V square[L] = {(int(i) < rows ? load_and_prefetch<C, L>(from + int64_t(i) * stride) : V{})...};
  transpose_square<L>(square);
  (simd::store(to + i * width, square[i]), ...);
}

/// One whole panel of rows that are contiguous along k, in squares of L; returns how deep it got.
template <class C, int L, int width, class T>
[[gnu::always_inline]] inline int64_t pack_transposed(const T* from, int64_t stride, int64_t k, C* to) {
  constexpr int whole = width / L, rest = width % L;
  constexpr auto lanes = std::make_index_sequence<L>();
  int64_t done = 0;
  for (; done + L <= k; done += L) {
    if constexpr (rest > 0)  // first, because its stores run over into the next k
      pack_square<C, L, rest, width>(from + whole * L * stride + done, stride, to + done * width + whole * L,
                                     lanes);
    for (int block = 0; block < whole; ++block)
      pack_square<C, L, L, width>(from + block * L * stride + done, stride, to + done * width + block * L,
                                  lanes);
  }
  return done;
}

/// `width` numbers that lie side by side, and none beside them: the last vector overlaps the one before.
template <class C, int L, int width, class T>
[[gnu::always_inline]] inline void pack_run(const T* from, C* to) {
  constexpr int lanes = width >= L ? L : int(std::bit_floor(unsigned(width)));
  auto move = [&](int i) {
    if constexpr (std::is_same_v<T, Float16>)
      simd::store(to + i, simd::load_f16<lanes, L>(from + i));
    else
      simd::store(to + i, simd::load_row<C, lanes>(from + i, lanes));
  };
  for (int i = 0; i + lanes <= width; i += lanes) move(i);
  if constexpr (width % lanes > 0) move(width - lanes);
}

/// Whole panels of rows that lie side by side in memory: each k is one run through all panels.
template <class C, int L, int width, class T>
[[gnu::always_inline]] inline void pack_rows_side_by_side(const T* from, int64_t k_stride, int64_t panels,
                                                          int64_t k, int64_t to_stride, C* to) {
  for (int64_t p = 0; p < k; ++p)
    for (int64_t panel = 0; panel < panels; ++panel) {
      const T* source = from + p * k_stride + panel * width;
      C* out = to + panel * to_stride + p * width;
      if constexpr (std::is_same_v<C, T>)
        std::memcpy(out, source, width * sizeof(C));
      else
        pack_run<C, L, width>(source, out);
    }
}

/// The part of an operand to pack.
struct PackRange {
  int64_t row, rows;  ///< of those that lie side by side in a panel
  int64_t k0, k;      ///< along the summed dimension
};

/// Packs a part of `source` into panels. An operand of another kind has a `pack` of its own.
template <class C, int W, int width, class T>
[[gnu::always_inline]] inline void pack(const PackSource<T>& source, const PackRange& range, C* to) {
  constexpr int L = W * int(sizeof(float)) / int(sizeof(C));
  const PackSource<T> from{source.data + range.row * source.stride + range.k0 * source.k_stride,
                           source.stride, source.k_stride};
  const int64_t rows = range.rows, k = range.k, to_stride = panel_stride(width, k);
  int64_t done = 0;
  if (from.stride == 1) {
    done = rows / width;
    pack_rows_side_by_side<C, L, width>(from.data, from.k_stride, done, k, to_stride, to);
  }
  for (; done * width < rows; ++done) {
    PackSource<T> panel{from.data + done * width * from.stride, from.stride, from.k_stride};
    int64_t left = std::min<int64_t>(width, rows - done * width), deep = 0;
    C* out = to + done * to_stride;
    if (from.k_stride == 1 && left == width)
      deep = pack_transposed<C, L, width>(panel.data, panel.stride, k, out);
    panel.data += deep * from.k_stride;
    pack_strided<C, width>(panel, left, k - deep, out + deep * width);
  }
}

}  // namespace reprise::kernels::gemm_detail
