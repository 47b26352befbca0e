// Products of packed panels by a CPU's tiles of bf16 (kernels/cpu/amx.h): one of the units that a matrix multiply runs
// on (matrix.h). bf16 operands are taken as they are, f32 ones as sums of three bf16, f16 ones as sums of two.
//
// Note [Three parts]. An f32 x is x1 + x2 + x3, exactly: x1 is x rounded to bf16, x2 what is left rounded, x3 the
// rest, 8 digits each. Of the nine products of two such sums, x2 y3, x3 y2 and x3 y3 are left out: together they are
// below 2^-23 of x y, the last place of an f32, and about 2^-28 on average. Each of the other six is exact in f32, and so
// only sums are rounded. For 32 x 32 sums, 32 deep, six products of tiles take 384 cycles and vectors of 512 bits 1024.
//
// With MatmulPrecision::high, x is x1 + x2, both rounded, and x2 y2 is left out too: three products, at most 2^-15 of
// x y away, where products of TF32 are up to 2^-10.
//
// An f16 has eleven digits, and none below 2^-24: x1 + x2 is x, exactly, and x3 would be 0. All four products of two such sums are
// taken, in the order of the six. The other two would add zeros, so the sums have the bits of f32's by three parts.
//
// Tiles take subnormal numbers as zeros. So a panel that has a number whose parts may be such, or may be infinite, or
// whose products may, is marked, and multiplied by vectors.
//
// Note [Awake]. An AMX unit that has had no product for about a microsecond goes to sleep, and the next one waits for up
// to 1.5 us (measured on an Intel Xeon with AMX and 2 MiB of second-level cache per core). Packing and writing take
// longer than that, so they make a product now and then whose sums are not read.
#pragma once

#include <cstdint>
#include <type_traits>

#include "reprise/kernels/cpu/amx.h"
#include "reprise/kernels/gemm/pack.h"
#include "reprise/kernels/gemm/vector_unit.h"

namespace reprise::kernels::gemm_detail {

/// A panel of 32 rows of A or columns of B: a line of 64 bytes whose first number says whether it is marked, then for
/// each 32 of K and each part two tiles, one for 16 rows (columns). A tile's row has 32 numbers along K of a row of A;
/// or, for 2 numbers along K, 16 columns of B.
namespace tile_panel {

inline constexpr int64_t width = 32, depth = 32, header = 32, tile = 512;  // of numbers

inline int64_t size(int64_t k, int parts) { return header + (k + depth - 1) / depth * parts * 2 * tile; }

enum class Side : uint8_t { a, b };

/// How many parts a number has, and which products of them are taken.
enum class Split : uint8_t {
  none,        ///< bf16
  two,         ///< x1 + x2 of f32, whose other digits are dropped: all products but that of the second parts
  two_of_f16,  ///< all four products
  three        ///< six products of nine
};
constexpr int parts_of(Split split) { return split == Split::none ? 1 : split == Split::three ? 3 : 2; }

/// Packs up to 32 rows or columns: f32 in three parts or two, bf16 in one, or f32 that are bf16 in one. The thread has a session.
template <class T>
void pack(const PackSource<T>& from, int64_t lines, int64_t k, int parts, Side side, uint16_t* to);

/// sums[rows][32] (+)= A B for panels of A one after the other and one panel of B, but for panels that are marked, and
/// asks for the lines of `next`. The thread has a session.
void multiply(int64_t rows, int64_t columns, int64_t k, Split split, const uint16_t* a, const uint16_t* b,
              float* sums, bool add, const NextOutput& next);

/// See Note [Awake].
void stay_awake();

inline bool is_marked(const uint16_t* panel) { return panel[0] != 0; }

/// sums[rows][32] (+)= A B by vectors, for a panel of f32 each, as to[k * 32 + row].
void multiply_exactly(int64_t rows, int64_t k, const float* a, const float* b, float* sums, bool add);

}  // namespace tile_panel

template <class T>
inline constexpr tile_panel::Split exact_split = tile_panel::Split::three;
template <>
inline constexpr tile_panel::Split exact_split<BFloat16> = tile_panel::Split::none;
template <>
inline constexpr tile_panel::Split exact_split<Float16> = tile_panel::Split::two_of_f16;

/// For products of T, whose numbers are split so. f16 is widened and then taken as f32 of two parts, whatever the MatmulPrecision: its
/// products have the bits of f32's highest.
template <class T, tile_panel::Split split = exact_split<T>>
class MatrixUnit {
 public:
  using Packed = uint16_t;
  using Session = amx::Session;
  static constexpr int parts = tile_panel::parts_of(split);
  static constexpr int64_t max_k_panel = parts > 1 ? 128 : 256, k_step = tile_panel::depth;
  static constexpr int64_t rows_at_once = 64;
  static constexpr int64_t smallest_task = 1 << 20;  // multiply-adds: about 4 us of one core

  /// Whether products of this shape are worth their packing, which several parts make dearer than for vectors: it takes
  /// (1/m + 1/n) of the whole. A function of the shape and the CPU alone.
  static bool suits(int64_t m, int64_t columns, int64_t k) {
    const bool wide = parts > 1 ? double(m) * double(columns) >= 100 * (double(m) + double(columns))
                                : m >= 16 && columns >= 16;
    return simd::tiles() != simd::Tiles::none && wide && k >= 16;
  }

  static int64_t rows() { return tile_panel::width; }
  static int64_t columns() { return tile_panel::width; }
  static int64_t panel_size(int64_t, int64_t k) { return tile_panel::size(k, parts); }

  static void stay_awake() { tile_panel::stay_awake(); }

  template <class A>
  void pack_a(const A& a, const PackRange& range, uint16_t* to) const {
    pack_panels(a, range, tile_panel::Side::a, to);
  }
  template <class B>
  void pack_b(const B& b, const PackRange& range, uint16_t* to) const {
    pack_panels(b, range, tile_panel::Side::b, to);
  }

  template <class A, class B>
  void multiply(const A& a_source, const B& b_source, const PackRange& rows, const PackRange& columns,
                const uint16_t* a, const uint16_t* b, float* sums, bool add, const NextOutput& next) const {
    tile_panel::multiply(rows.rows, columns.rows, rows.k, split, a, b, sums, add, next);
    if constexpr (parts > 1)
      for (int64_t i = 0; i < rows.rows; i += tile_panel::width)
        if (tile_panel::is_marked(b) ||
            tile_panel::is_marked(a + i / tile_panel::width * tile_panel::size(rows.k, parts)))
          multiply_exactly(a_source, b_source,
                           {rows.row + i, std::min(tile_panel::width, rows.rows - i), rows.k0, rows.k},
                           columns, sums + i * tile_panel::width, add);
  }

 private:
  static constexpr int width = int(tile_panel::width);

  /// Panels whose numbers lie anywhere are packed for vectors first.
  template <class Source>
  static void pack_panels(const Source& from, PackRange range, tile_panel::Side side, uint16_t* to) {
    for (int64_t rows = range.rows; rows > 0;
         rows -= width, range.row += width, to += panel_size(width, range.k)) {
      range.rows = std::min<int64_t>(width, rows);
      if constexpr (std::is_same_v<Source, PackSource<T>> && !std::is_same_v<T, Float16>) {
        tile_panel::pack(PackSource<T>{from.data + range.row * from.stride + range.k0 * from.k_stride,
                                       from.stride, from.k_stride},
                         range.rows, range.k, parts, side, to);
      } else {
        alignas(64) float panel[panel_floats];
        simd::run([&]<int W>() { pack<float, W, width>(from, range, panel); });
        tile_panel::pack(PackSource<float>{panel, 1, width}, range.rows, range.k, parts, side, to);
      }
    }
  }

  template <class A, class B>
  static void multiply_exactly(const A& a_source, const B& b_source, const PackRange& rows,
                               const PackRange& columns, float* sums, bool add) {
    alignas(64) float a[panel_floats], b[panel_floats];
    simd::run([&]<int W>() {
      pack<float, W, width>(a_source, rows, a);
      pack<float, W, width>(b_source, columns, b);
    });
    tile_panel::multiply_exactly(rows.rows, rows.k, a, b, sums, add);
  }

  static constexpr int64_t panel_floats = width * max_k_panel + 32;
};

}  // namespace reprise::kernels::gemm_detail
