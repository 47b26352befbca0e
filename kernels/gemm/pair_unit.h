// Products of bf16 by the CPU's instruction for pairs of them (kernels/cpu/bf16_pairs.h): one of the units that a matrix
// multiply runs on (matrix.h). It does two multiply-adds where a vector of f32 does one, with operands of half the size.
//
// A panel holds words of two numbers that are neighbours along K as to[pair * width + row], the first in the lower half;
// an odd K ends with a zero.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "reprise/kernels/gemm/next_output.h"
#include "reprise/kernels/gemm/pack.h"
#include "reprise/kernels/gemm/tile.h"

namespace reprise::kernels::gemm_detail {

namespace pair_panel {

inline constexpr int64_t rows = panel_rows<16>, columns = panel_columns<float, 16>;

inline int64_t pairs(int64_t k) { return (k + 1) / 2; }

/// Packs up to `width` lines (rows of A or columns of B), `width` being `rows` or `columns`. Writes up to 15 words more.
void pack(const PackSource<BFloat16>& from, int64_t lines, int64_t k, int64_t width, uint32_t* to);

/// The same from `k` x width numbers that are bf16, as to[k * width + line].
void pack_widened(const float* from, int64_t k, int64_t width, uint32_t* to);

/// sums (+)= A B for panels of A that hold `rows`, and one of B that holds `columns`; the sums' rows are 32 apart.
void multiply(int64_t rows, int64_t columns, int64_t k, const uint32_t* a, const uint32_t* b, float* sums,
              bool add, const NextOutput& next);

}  // namespace pair_panel

class PairUnit {
 public:
  using Packed = uint32_t;
  struct Session {};
  static constexpr int64_t max_k_panel = 512, k_step = 32;
  static constexpr int64_t rows_at_once = INT64_MAX;
  static constexpr int64_t smallest_task = 1 << 19;  // multiply-adds: about 2 us of one core

  static bool is_there() { return simd::bf16_pairs() != simd::Bf16Pairs::none; }

  static int64_t rows() { return pair_panel::rows; }
  static int64_t columns() { return pair_panel::columns; }
  static int64_t panel_size(int64_t width, int64_t k) { return panel_stride(width, pair_panel::pairs(k)); }
  static void stay_awake() {}

  template <class A>
  void pack_a(const A& a, const PackRange& range, uint32_t* to) const {
    pack_panels<pair_panel::rows>(a, range, to);
  }
  template <class B>
  void pack_b(const B& b, const PackRange& range, uint32_t* to) const {
    pack_panels<pair_panel::columns>(b, range, to);
  }

  template <class A, class B>
  void multiply(const A&, const B&, const PackRange& rows, const PackRange& columns, const uint32_t* a,
                const uint32_t* b, float* sums, bool add, const NextOutput& next) const {
    pair_panel::multiply(rows.rows, columns.rows, rows.k, a, b, sums, add, next);
  }

 private:
  /// Panels whose numbers lie anywhere are packed as f32 first, a few of K at a time.
  template <int64_t width, class Source>
  static void pack_panels(const Source& from, PackRange range, uint32_t* to) {
    for (int64_t left = range.rows; left > 0;
         left -= width, range.row += width, to += panel_size(width, range.k)) {
      range.rows = std::min(width, left);
      if constexpr (std::is_same_v<Source, PackSource<BFloat16>>) {
        pair_panel::pack(
            {from.data + range.row * from.stride + range.k0 * from.k_stride, from.stride, from.k_stride},
            range.rows, range.k, width, to);
      } else {
        constexpr int64_t depth = 64;
        alignas(64) float panel[width * depth + 32];
        for (int64_t k = 0; k < range.k; k += depth) {
          const PackRange part{range.row, range.rows, range.k0 + k, std::min(depth, range.k - k)};
          simd::run([&]<int W>() { pack<float, W, int(width)>(from, part, panel); });
          pair_panel::pack_widened(panel, part.k, width, to + k / 2 * width);
        }
      }
    }
  }
};

}  // namespace reprise::kernels::gemm_detail
