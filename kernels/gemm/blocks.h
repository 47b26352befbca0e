// How a matrix multiply is cut: C = A B, (M, N) = (M, K) (K, N).
//
// Note [Blocks]. C is cut into blocks whose share of A and B, packed, is a few megabytes, and these into tiles. Where the
// product's longer side has several panels for each thread, a task is a strip across a block (strips.h): what it needs of the
// longer operand is packed into memory of its thread alone, and stays in its second-level cache. Otherwise a task is a tile,
// and both operands are shared. The sum over K runs in panels of at most the unit's `max_k_panel`, in order, whatever the
// tiles are: results depend on the shape alone. A tile's sums stay in the cache until K is done; only more than `max_k_round`
// of it make them wait for another round.
#pragma once

#include <algorithm>
#include <cstdint>

#include "reprise/core/parallel.h"
#include "reprise/kernels/gemm/strips.h"

namespace reprise::kernels::gemm_detail {

/// How a product of this shape is cut. Sizes count elements.
struct Blocks {
  static constexpr int64_t max_k_round = 1024, packed_elements = 1 << 20, panels_per_thread = 4;

  int64_t threads;
  bool by_rows;              ///< whether strips are of rows, along M
  bool in_strips;            ///< whether they are the tasks
  int64_t rows, columns;     ///< the widths of a panel of A and of B
  int64_t k_panel;           ///< a panel's depth
  int64_t k_round;           ///< K in one round, a multiple of k_panel
  int64_t tile_m, tile_n;    ///< multiples of the panels' widths
  int64_t block_m, block_n;  ///< multiples of the tile's

  /// For a unit that multiplies panels (vector_unit.h, matrix_unit.h).
  template <class Unit>
  Blocks(const Unit& unit, int64_t m, int64_t n, int64_t k)
      : threads(num_threads()), by_rows(m >= n), rows(unit.rows()), columns(unit.columns()) {
    const int64_t panels = std::max<int64_t>(1, ceil_div(k, Unit::max_k_panel));
    k_panel = std::max<int64_t>(1, ceil_div(ceil_div(k, panels), Unit::k_step) * Unit::k_step);
    k_round = k_panel * std::clamp<int64_t>(ceil_div(k, k_panel), 1, max_k_round / Unit::max_k_panel);
    const int64_t side = packed_elements / k_round, all_m = ceil_div(m, rows);
    int64_t panels_m = all_m <= 10 ? std::max<int64_t>(1, all_m) : 8, panels_n = 4;
    in_strips = std::min(side, std::max(m, n)) / (by_rows ? rows : columns) >= panels_per_thread * threads;
    if (in_strips) {
      if (!by_rows) panels_m = std::min<int64_t>(all_m, 4), panels_n = 8;
    } else {
      auto is_large = [&] { return panels_m * panels_n * rows * columns * k > Unit::smallest_task; };
      auto tiles = [&] { return ceil_div(m, panels_m * rows) * ceil_div(n, panels_n * columns); };
      while (tiles() < 8 * threads && panels_m > 1 && is_large())
        (panels_n > 1 && panels_m * rows <= panels_n * columns ? panels_n : panels_m) /= 2;
    }
    tile_m = panels_m * rows;
    tile_n = panels_n * columns;
    block_m = std::max<int64_t>(1, side / tile_m) * tile_m;
    block_n = std::max<int64_t>(1, side / tile_n) * tile_n;
  }

  /// Of a block of so many rows and columns, along its longer side.
  template <class Unit>
  Strips strips(int64_t m, int64_t n) const {
    const int64_t length = by_rows ? m : n, width = by_rows ? rows : columns;
    const int64_t thick = (by_rows ? tile_m : tile_n) / width;
    const int64_t per_panel = width * (by_rows ? n : m) * k_round;
    const int64_t smallest = ceil_div(Unit::smallest_task, per_panel);
    return {length, width, std::clamp<int64_t>(ceil_div(length, width) / smallest, 1, threads), thick,
            std::min(smallest, thick)};
  }
};

}  // namespace reprise::kernels::gemm_detail
