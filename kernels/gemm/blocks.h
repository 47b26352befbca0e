// How a matrix multiply is cut: C = A B, (M, N) = (M, K) (K, N).
//
// Note [Blocks]. C is cut into blocks whose share of A and B, packed, is a few megabytes, and these into
// tiles. Where the product's longer side has several strips of tiles for each thread, a task is a whole strip: what it
// needs of the longer operand is packed into memory of its thread alone, and stays in its second-level cache. Otherwise,
// and in a last block that has fewer strips, a task is a tile, and both operands are shared. The sum over K runs in panels of at most the unit's `max_k_panel`, in order,
// whatever the tiles are: results depend on the shape alone. A tile's sums stay in the cache until K is done; only more
// than `max_k_round` of it make them wait for another round.
#pragma once

#include <algorithm>
#include <cstdint>

#include "reprise/core/parallel.h"

namespace reprise::kernels::gemm_detail {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// How a product of this shape is cut. Sizes count elements.
struct Blocks {
  static constexpr int64_t max_k_round = 1024, packed_elements = 1 << 20, strips_per_thread = 4;

  bool by_rows;              ///< whether strips are of rows, along M
  int64_t rows, columns;     ///< the widths of a panel of A and of B
  int64_t k_panel;           ///< a panel's depth
  int64_t k_round;           ///< K in one round, a multiple of k_panel
  int64_t tile_m, tile_n;    ///< multiples of the panels' widths
  int64_t block_m, block_n;  ///< multiples of the tile's

  /// For a unit that multiplies panels (vector_unit.h, matrix_unit.h).
  template <class Unit>
  Blocks(const Unit& unit, int64_t m, int64_t n, int64_t k)
      : by_rows(m >= n), rows(unit.rows()), columns(unit.columns()) {
    const int64_t panels = std::max<int64_t>(1, ceil_div(k, Unit::max_k_panel));
    k_panel = std::max<int64_t>(1, ceil_div(ceil_div(k, panels), Unit::k_step) * Unit::k_step);
    k_round = k_panel * std::clamp<int64_t>(ceil_div(k, k_panel), 1, max_k_round / Unit::max_k_panel);
    const int64_t side = packed_elements / k_round, all_m = ceil_div(m, rows);
    int64_t panels_m = all_m <= 10 ? std::max<int64_t>(1, all_m) : 8, panels_n = 4;
    auto is_large = [&] { return panels_m * panels_n * rows * columns * k > Unit::smallest_task; };
    const int64_t along = std::min(side, std::max(m, n)) / (by_rows ? rows : columns);
    if (const int64_t wanted = strips_per_thread * num_threads(); along >= wanted) {
      if (!by_rows) panels_m = std::min<int64_t>(all_m, 4), panels_n = 8;
      int64_t& thick = by_rows ? panels_m : panels_n;
      while (along / thick < wanted && thick > 1 && is_large()) thick /= 2;
    } else {
      auto tiles = [&] { return ceil_div(m, panels_m * rows) * ceil_div(n, panels_n * columns); };
      while (tiles() < 8 * num_threads() && panels_m > 1 && is_large())
        (panels_n > 1 && panels_m * rows <= panels_n * columns ? panels_n : panels_m) /= 2;
    }
    tile_m = panels_m * rows;
    tile_n = panels_n * columns;
    block_m = std::max<int64_t>(1, side / tile_m) * tile_m;
    block_n = std::max<int64_t>(1, side / tile_n) * tile_n;
  }
};

}  // namespace reprise::kernels::gemm_detail
