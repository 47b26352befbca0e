// One matrix multiply by all threads: C = epilogue(A B), (M, N) = (M, K) (K, N).
//
// The tiles of Note [Blocks] (blocks.h), or strips of them, are the tasks of the threads. The first thread that needs a piece
// of A or B packs it for all; `PackedOperand` keeps count. What one strip alone needs, its thread packs for itself.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <thread>

#include "reprise/core/thread_owned.h"
#include "reprise/kernels/gemm/blocks.h"
#include "reprise/kernels/gemm/epilogue.h"
#include "reprise/kernels/gemm/matmul_precision.h"
#include "reprise/kernels/gemm/matrix_unit.h"
#include "reprise/kernels/gemm/pair_unit.h"
#include "reprise/kernels/gemm/vector_unit.h"

namespace reprise::kernels::gemm_detail {

/// Memory aligned to cache lines that grows and is kept for the next call. A whole vector may be read from any
/// of its elements.
class Scratch {
 public:
  template <class T>
  T* ensure(int64_t count) {
    const size_t bytes = size_t(count) * sizeof(T) + size_t(alignment);  // of one vector
    if (bytes > bytes_) {
      memory_.reset();
      bytes_ = 0;  // there may be no memory
      memory_.reset(static_cast<std::byte*>(::operator new(bytes, alignment)));
      bytes_ = bytes;
    }
    return reinterpret_cast<T*>(memory_.get());
  }

 private:
  static constexpr std::align_val_t alignment{64};
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, alignment); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  size_t bytes_ = 0;
};

/// The packed pieces of one operand and which of them are ready. A piece is a panel's width, one panel of K deep,
/// and is packed by the first who asks for it.
class PackedOperand {
 public:
  /// Forgets what was packed, unless it was this `block` (a name the caller gives).
  void start(int64_t block, int64_t pieces) {
    if (block == block_) return;
    if (pieces > count_) {
      states_ = std::make_unique<std::atomic<uint64_t>[]>(size_t(pieces));
      count_ = pieces;
    }
    block_ = block;
    ++round_;
  }
  void forget() { block_ = -1; }

  /// Has pieces [first, first + count) packed: calls `pack(i)` for those that are not begun yet, and returns when
  /// all are ready. Threads that need the same pieces so share the work.
  template <class Pack>
  void ensure(int64_t first, int64_t count, Pack&& pack) {
    const uint64_t ready = 2 * round_, busy = ready - 1;
    bool all_ready = true;
    for (int64_t i = 0; i < count; ++i) {
      std::atomic<uint64_t>& state = states_[size_t(first + i)];
      uint64_t seen = state.load(std::memory_order_acquire);
      all_ready = all_ready && seen == ready;
      if (seen < busy && state.compare_exchange_strong(seen, busy, std::memory_order_acquire)) {
        pack(i);
        state.store(ready, std::memory_order_release);
      }
    }
    for (int64_t i = 0; i < count && !all_ready; ++i)
      for (int spin = 0; states_[size_t(first + i)].load(std::memory_order_acquire) != ready; ++spin)
        if (spin > 1000) std::this_thread::yield();
  }

  Scratch memory;

 private:
  std::unique_ptr<std::atomic<uint64_t>[]> states_;
  int64_t count_ = 0, block_ = -1;
  uint64_t round_ = 0;
};

struct Workspace {
  PackedOperand a, b;
  Scratch own;        ///< what of A or B one strip alone needs
  Scratch sums;       ///< of the tiles that wait for the next round of K
  Scratch tile_sums;  ///< of the tile at hand
};

inline Workspace& workspace() { return thread_owned<Workspace>(); }

/// An operand is whatever `pack` takes (pack.h), the result whatever `write_sums` does (epilogue.h), a unit what packs
/// and multiplies panels.
template <class T, class Unit, class A, class B, class Result>
class MatrixMultiply {
 public:
  using C = Accumulator<T>;

  MatrixMultiply(const A& a, const B& b, const Result& out, int64_t m, int64_t n, int64_t k)
      : a_(a), b_(b), out_(out), m_(m), n_(n), k_(k), blocks_(unit_, m, n, k) {}

  void run() {
    Workspace& space = workspace();
    space.a.forget();
    space.b.forget();
    const int64_t rounds = std::max<int64_t>(1, ceil_div(k_, blocks_.k_round));
    for (int64_t n0 = 0; n0 < n_; n0 += blocks_.block_n)
      for (int64_t m0 = 0; m0 < m_; m0 += blocks_.block_m)
        for (int64_t round = 0; round < rounds; ++round)
          run_block(space,
                    {m0, std::min(blocks_.block_m, m_ - m0), n0, std::min(blocks_.block_n, n_ - n0),
                     round * blocks_.k_round, std::min(blocks_.k_round, k_ - round * blocks_.k_round)},
                    rounds);
  }

 private:
  using Packed = typename Unit::Packed;
  struct Block {
    int64_t m0, m, n0, n, k0, k;
  };

  /// An operand's panels, packed, of a tile one panel of K deep.
  struct Side {
    PackedOperand* shared;  ///< null: `memory` is of the strip at hand, its thread's own
    Packed* memory;
    int64_t panels, size;  ///< side by side, and their elements
  };
  Side side(PackedOperand* shared, int64_t tile, int64_t width) const {
    const int64_t panels = tile / width;
    return {shared, nullptr, panels, panels * Unit::panel_size(width, blocks_.k_panel)};
  }

  void run_block(Workspace& space, const Block& block, int64_t rounds) {
    const int64_t panels = std::max<int64_t>(1, ceil_div(block.k, blocks_.k_panel));
    const int64_t round = block.k0 / blocks_.k_round;
    // Threads begin with tasks far apart: along the longer side, so that they pack what is theirs, and wait for each other
    // in the smaller operand alone.
    const bool by_rows = blocks_.by_rows;
    const Strips tiles_m(block.m, blocks_.rows, blocks_.tile_m / blocks_.rows);
    const Strips tiles_n(block.n, blocks_.columns, blocks_.tile_n / blocks_.columns);
    const Strips& crossing = by_rows ? tiles_n : tiles_m;
    const bool in_strips = blocks_.in_strips || crossing.count() == 1;
    const Strips along = blocks_.in_strips ? blocks_.template strips<Unit>(block.m, block.n)
                         : by_rows         ? tiles_m
                                           : tiles_n;
    Side all_a = side(in_strips && by_rows ? nullptr : &space.a, blocks_.tile_m, blocks_.rows);
    Side all_b = side(in_strips && !by_rows ? nullptr : &space.b, blocks_.tile_n, blocks_.columns);
    auto start = [&](Side& side, int64_t first, const Strips& tiles) {
      if (!side.shared) return;
      // What the block before had packed of the same rows or columns is there.
      side.shared->start(first * rounds + round, tiles.count() * panels * side.panels);
      side.memory = side.shared->memory.template ensure<Packed>(tiles.count() * panels * side.size);
    };
    start(all_a, block.m0, tiles_m);
    start(all_b, block.n0, tiles_n);
    // With room for one vector more, which may be read past a tile's last sums.
    const int64_t tile_size = blocks_.tile_m * blocks_.tile_n + 16;
    // With several rounds along the sum, the sums of those before wait here.
    C* waiting = rounds > 1 ? space.sums.ensure<C>(along.count() * crossing.count() * tile_size) : nullptr;
    auto task = [&](int64_t number) {
      [[maybe_unused]] typename Unit::Session session;
      Side a = all_a, b = all_b;
      for (Side* own : {&a, &b})
        if (!own->shared) own->memory = workspace().own.template ensure<Packed>(panels * own->size);
      const int64_t tiles = in_strips ? crossing.count() : 1;
      for (int64_t at = number * tiles; at < (number + 1) * tiles; ++at) {
        const int64_t i = at / crossing.count(), j = at % crossing.count();
        const Strips::Strip strip = along[i], other = crossing[j];
        if (strip.count == 0) return;
        const Tile tile = by_rows ? Tile{i, strip, j, other} : Tile{j, other, i, strip};
        multiply_tile(block, tile, a, b, in_strips && j > 0, waiting ? waiting + at * tile_size : nullptr);
      }
      simd::finish_past_caches();
    };
    parallel_tasks(along.count() * (in_strips ? 1 : crossing.count()), task);
  }

  /// A part of a block, of whole panels, and which of those that share packed pieces its rows and columns are.
  struct Tile {
    int64_t i;
    Strips::Strip rows;
    int64_t j;
    Strips::Strip columns;
  };

  /// All panels of K in the block for one tile. `again`: the strip's own operand is packed already.
  void multiply_tile(const Block& block, const Tile& tile, const Side& side_a, const Side& side_b, bool again,
                     C* waiting) const {
    const int64_t panels = std::max<int64_t>(1, ceil_div(block.k, blocks_.k_panel));
    C* sums = workspace().tile_sums.template ensure<C>(blocks_.tile_m * blocks_.tile_n + 16);
    for (int64_t panel = 0; panel < panels; ++panel) {
      const int64_t at = panel * blocks_.k_panel, k0 = block.k0 + at,
                    k = std::min(blocks_.k_panel, block.k - at);
      const PackRange rows{block.m0 + tile.rows.first, tile.rows.count, k0, k};
      const PackRange columns{block.n0 + tile.columns.first, tile.columns.count, k0, k};
      auto packed = [&](const Side& side, int64_t number, const PackRange& range, int64_t width,
                        const auto& pack) {
        const int64_t piece = side.shared ? number * panels + panel : panel;
        Packed* to = side.memory + piece * side.size;
        if (side.shared)
          side.shared->ensure(piece * side.panels, ceil_div(range.rows, width), [&](int64_t p) {
            pack(panel_of(range, width, p), to + p * Unit::panel_size(width, k));
          });
        else if (!again)
          pack(range, to);
        return to;
      };
      const Packed* a = packed(side_a, tile.i, rows, blocks_.rows,
                               [&](const PackRange& part, Packed* to) { unit_.pack_a(a_, part, to); });
      const Packed* b = packed(side_b, tile.j, columns, blocks_.columns,
                               [&](const PackRange& part, Packed* to) { unit_.pack_b(b_, part, to); });
      multiply(block, rows, columns, a, b, sums, waiting);
    }
  }

  static PackRange panel_of(const PackRange& range, int64_t width, int64_t p) {
    return {range.row + p * width, std::min(width, range.rows - p * width), range.k0, range.k};
  }

  /// One panel of K for one tile: as wide as a panel of B at a time; A's panels stay in the second-level cache.
  void multiply(const Block& block, const PackRange& rows, const PackRange& columns, const Packed* a,
                const Packed* b, C* sums, C* waiting) const {
    const int64_t k = rows.k, width = blocks_.columns, strip_size = blocks_.tile_m * width;
    const bool first = rows.k0 == block.k0, last_of_round = rows.k0 + k == block.k0 + block.k,
               last = rows.k0 + k == k_;
    const bool single = first && last_of_round;
    for (int64_t strip = 0; strip * width < columns.rows; ++strip) {
      C* strip_sums = sums + (single ? 0 : strip * strip_size);
      const PackRange strip_columns = panel_of(columns, width, strip);
      const NextOutput next =
          last ? out_.next(rows.row, strip_columns.row, strip_columns.rows) : NextOutput();
      unit_.multiply(a_, b_, rows, strip_columns, a, b + strip * Unit::panel_size(width, k), strip_sums,
                     !first, next);
      if (last_of_round && waiting)
        add_rounds(waiting + strip * strip_size, strip_sums, rows.rows * width, block.k0 > 0);
      if (last) write(waiting ? waiting + strip * strip_size : strip_sums, rows, strip_columns);
    }
  }

  static void add_rounds(C* waiting, const C* sums, int64_t count, bool add) {
    simd::run([=]<int W>() {
      for (int64_t i = 0; i < count; ++i) waiting[i] = add ? waiting[i] + sums[i] : sums[i];
    });
  }

  void write(const C* sums, const PackRange& rows, const PackRange& columns) const {
    for (int64_t i = 0; i < rows.rows; i += Unit::rows_at_once) {
      const int64_t count = std::min(Unit::rows_at_once, rows.rows - i), stride = blocks_.columns;
      simd::run([&]<int W>() {
        write_sums<lanes<C, W>>(out_, sums + i * stride, stride, rows.row + i, columns.row, count,
                                columns.rows);
      });
      unit_.stay_awake();
    }
  }

  Unit unit_;
  A a_;
  B b_;
  Result out_;
  int64_t m_, n_, k_;
  Blocks blocks_;
};

/// out = A B, (M, N) = (M, K) (K, N), by the unit that suits T, the precision and the shape on this CPU. `precision` is an
/// argument because it is the caller's thread's, and this may run on a thread of the pool.
template <class T, class A, class B, class Result>
void multiply_matrices(const A& a, const B& b, const Result& out, int64_t m, int64_t n, int64_t k,
                       [[maybe_unused]] MatmulPrecision precision) {
  if constexpr (std::is_same_v<T, float>) {
    using Rounded = MatrixUnit<T, tile_panel::Split::two>;
    if (precision == MatmulPrecision::high && Rounded::suits(m, n, k))
      return MatrixMultiply<T, Rounded, A, B, Result>(a, b, out, m, n, k).run();
  }
  if constexpr (!std::is_same_v<T, double>)
    if (MatrixUnit<T>::suits(m, n, k))
      return MatrixMultiply<T, MatrixUnit<T>, A, B, Result>(a, b, out, m, n, k).run();
  if constexpr (std::is_same_v<T, BFloat16>)
    if (PairUnit::is_there()) return MatrixMultiply<T, PairUnit, A, B, Result>(a, b, out, m, n, k).run();
  MatrixMultiply<T, VectorUnit<Accumulator<T>>, A, B, Result>(a, b, out, m, n, k).run();
}

}  // namespace reprise::kernels::gemm_detail
