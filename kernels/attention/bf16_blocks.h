// How blocks of bf16 are packed for `multiply` of bf16_products.h, and sums of f32 rounded for the next product.
#pragma once

#include <cstdint>

#include "reprise/core/dtype.h"
#include "reprise/kernels/attention/bf16_products.h"
#include "reprise/kernels/attention/cpu_tile.h"
#include "reprise/kernels/cpu/simd_rows.h"

namespace reprise::kernels::attention_detail {

/// Columns of a packed head.
inline int64_t square_width(int64_t head_dim) { return round_up(head_dim, kSquare); }

/// L numbers of bf16 of a row that has `count` left, as words; zeros behind its end.
template <int L>
[[gnu::always_inline]] inline simd::Vector<uint32_t, L> load_words(const BFloat16* from, int64_t count) {
  uint16_t bits[L] = {};
  if (count >= L)
    return __builtin_convertvector(simd::load<simd::Vector<uint16_t, L>>(from), simd::Vector<uint32_t, L>);
  for (int i = 0; i < L && i < count; ++i) bits[i] = from[i].bits;
  return __builtin_convertvector(simd::load<simd::Vector<uint16_t, L>>(bits), simd::Vector<uint32_t, L>);
}

/// Plain (rows, width): rows [first, first + rows) of `cols` numbers, with zeros behind and below. `flip` is 0, or
/// turns every sign.
template <int L>
void pack_plain(const Rows<BFloat16>& from, int64_t first, int64_t rows, int64_t cols, uint32_t flip,
                uint32_t* to, int64_t width) {
  using Words = simd::Vector<uint32_t, L>;
  for (int64_t r = 0; r < round_up(rows, kSquare); ++r)
    for (int64_t j = 0; j < width; j += 2 * L) {
      uint32_t* words = to + r * (width / 2) + j / 2;
      if (r < rows && cols - j >= 2 * L) {
        simd::store(words, Words(simd::load<Words>(from[first + r] + j) ^ flip));
        continue;
      }
      for (int64_t i = j; i < j + 2 * L; i += 2) {
        const uint32_t even = r < rows && i < cols ? from[first + r][i].bits : 0,
                       odd = r < rows && i + 1 < cols ? from[first + r][i + 1].bits : 0;
        words[(i - j) / 2] = (odd << 16 | even) ^ flip;
      }
    }
}

/// Pairs (rows / 2, width) of the same.
template <int L>
void pack_pairs(const Rows<BFloat16>& from, int64_t first, int64_t rows, int64_t cols, uint32_t* to,
                int64_t width) {
  using Words = simd::Vector<uint32_t, L>;
  for (int64_t r = 0; r < round_up(rows, kSquare); r += 2)
    for (int64_t j = 0; j < width; j += L) {
      const Words even = r < rows ? load_words<L>(from[first + r] + j, cols - j) : Words{};
      const Words odd = r + 1 < rows ? load_words<L>(from[first + r + 1] + j, cols - j) : Words{};
      simd::store(to + r / 2 * width + j, Words(odd << 16 | even));
    }
}

/// to[j][r] = from[r][j] for words; rows and columns are multiples of 16.
template <int L>
void transpose_words(const uint32_t* from, int64_t rows, int64_t cols, uint32_t* to, int64_t to_row) {
  using Words = simd::Vector<uint32_t, L>;
  for (int64_t r = 0; r < rows; r += L)
    for (int64_t j = 0; j < cols; j += L) {
      Words square[L];
      for (int i = 0; i < L; ++i) square[i] = simd::load<Words>(from + (r + i) * cols + j);
      transpose_square<L / 2>(square);
      for (int i = 0; i < L; ++i) simd::store(to + (j + i) * to_row + r, square[i]);
    }
}

/// Rows `even` and `odd` of a sum, rounded, as words of pairs.
template <int L>
[[gnu::always_inline]] inline simd::Vector<uint32_t, L> rounded_pairs(simd::Vector<float, L> even,
                                                                      simd::Vector<float, L> odd) {
  return simd::bf16_words<L>(odd) << 16 | simd::bf16_words<L>(even);
}

}  // namespace reprise::kernels::attention_detail
