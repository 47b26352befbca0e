// Packing for tiles of bf16, and their products.
#include "reprise/kernels/gemm/matrix_unit.h"

#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "reprise/kernels/cpu/amx.h"

namespace reprise::kernels::gemm_detail::tile_panel {
namespace {

using Words = simd::Vector<uint32_t, 16>;
using Floats = simd::Vector<float, 16>;
using Halves = simd::Vector<uint16_t, 32>;

constexpr int lines_per_tile = 16, pairs = int(depth) / 2;

/// The upper halves of 32 words.
template <size_t... i>
[[gnu::always_inline]] inline Words upper_halves(Words low, Words high, std::index_sequence<i...>) {
  return Words(__builtin_shufflevector(Halves(low), Halves(high), (2 * int(i) + 1)...));
}

/// Takes the next of `parts` parts off x: a bf16 in the upper half.
template <int parts>
[[gnu::always_inline]] inline Words take_part(Floats& x, int part) {
  if (parts != 2 && part + 1 == parts) return Words(x);  // it has eight digits left
  // x + 2^16 x is rounded to 24 digits, so that 8 are left of x where 2^16 x is taken off (Veltkamp 1968). The product is
  // exact, so that it changes nothing whether it is fused with the sum.
  const Floats rounded = (x + x * 65536.0f) - x * 65536.0f;
  x -= rounded;
  return Words(rounded);
}

/// The smallest and the largest size of numbers so far, zeros left out: their bits without the sign, doubled.
struct Range {
  Words least = Words{} - 1u, most{};

  [[gnu::always_inline]] void add(Floats x) {
    const Words size = Words(x) + Words(x), but_zero = size - 1u;
    least = but_zero < least ? but_zero : least;
    most = size > most ? size : most;
  }
  /// Whether there are parts that tiles may take as zeros, or products that may not be finite.
  [[gnu::always_inline]] bool is_beyond_tiles() const {
    constexpr uint32_t smallest = uint32_t(127 - 102) << 24, beyond = uint32_t(127 + 59) << 24;
    uint32_t low[16], high[16], any = 0;
    simd::store(low, least);
    simd::store(high, most);
    for (int i = 0; i < 16; ++i) any |= uint32_t(low[i] < smallest - 1) | uint32_t(high[i] >= beyond);
    return any != 0;
  }
};

/// Asks for what the next block has `next` further on.
[[gnu::always_inline]] inline Floats load_and_prefetch(const float* from, int64_t next) {
  __builtin_prefetch(from + next);
  return simd::load<Floats>(from);
}

/// Gives write(part, line, words) for 16 lines, 32 deep, that are contiguous along K: words of two numbers along K.
template <int parts, class Write>
[[gnu::always_inline]] inline void read_lines(const float* from, int64_t stride, Range& range,
                                              const Write& write) {
  for (int line = 0; line < lines_per_tile; ++line, from += stride) {
    Floats low = load_and_prefetch(from, depth), high = load_and_prefetch(from + 16, depth);
    if (parts > 1) range.add(low), range.add(high);
    for (int part = 0; part < parts; ++part) {
      const Words first = take_part<parts>(low, part), second = take_part<parts>(high, part);
      write(part, line, upper_halves(first, second, std::make_index_sequence<32>()));
    }
  }
}

/// Gives write(part, pair, words) for lines that lie side by side: the words of two numbers along K of all lines.
template <int parts, class Write>
[[gnu::always_inline]] inline void read_pairs(const float* from, int64_t k_stride, Range& range,
                                              const Write& write) {
  for (int pair = 0; pair < pairs; ++pair, from += 2 * k_stride) {
    Floats even = load_and_prefetch(from, depth * k_stride);
    Floats odd = load_and_prefetch(from + k_stride, depth * k_stride);
    if (parts > 1) range.add(even), range.add(odd);
    for (int part = 0; part < parts; ++part) {
      const Words first = take_part<parts>(even, part), second = take_part<parts>(odd, part);
      write(part, pair, (second & 0xffff0000u) | (first >> 16));
    }
  }
}

template <int, class Write>
[[gnu::always_inline]] inline void read_lines(const BFloat16* from, int64_t stride, Range&,
                                              const Write& write) {
  for (int line = 0; line < lines_per_tile; ++line) write(0, line, simd::load<Words>(from + line * stride));
}

template <int, class Write>
[[gnu::always_inline]] inline void read_pairs(const BFloat16* from, int64_t k_stride, Range&,
                                              const Write& write) {
  using Row = simd::Vector<uint16_t, 16>;
  for (int pair = 0; pair < pairs; ++pair, from += 2 * k_stride) {
    const Words even = __builtin_convertvector(simd::load<Row>(from), Words);
    const Words odd = __builtin_convertvector(simd::load<Row>(from + k_stride), Words);
    write(0, pair, (odd << 16) | even);
  }
}

/// A block's 16 lines, 32 deep, from rows of `rows` numbers (16 or 32) to rows of the other length.
template <int rows>
[[gnu::always_inline]] inline void transpose_block(const float* from, int64_t stride, float* to) {
  constexpr int columns = lines_per_tile * int(depth) / rows;
  const int64_t next = rows == depth ? depth * stride : depth;
  for (int row = 0; row < rows; row += 16)
    for (int column = 0; column < columns; column += 16) {
      Floats square[16];
      for (int i = 0; i < 16; ++i) square[i] = load_and_prefetch(from + (row + i) * stride + column, next);
      transpose_square<16>(square);
      for (int i = 0; i < 16; ++i) simd::store(to + (column + i) * rows + row, square[i]);
    }
}

/// One block, `lines` x `k` of it there, to the tiles `part_stride` apart.
template <int parts, class T>
[[gnu::always_inline]] inline void pack_block(PackSource<T> from, int64_t lines, int64_t k, Side side,
                                              uint16_t* to, int64_t part_stride, Range& range) {
  alignas(64) T copy[lines_per_tile * depth];
  const bool whole = lines >= lines_per_tile && k >= depth && (from.k_stride == 1 || from.stride == 1);
  bool by_lines = from.k_stride == 1;
  const PackSource<T> as_side =
      side == Side::a ? PackSource<T>{copy, depth, 1} : PackSource<T>{copy, 1, lines_per_tile};
  if (!whole) {
    for (int64_t i = 0; i < lines_per_tile; ++i)
      for (int64_t p = 0; p < depth; ++p)
        copy[i * as_side.stride + p * as_side.k_stride] =
            i < lines && p < k ? from.data[i * from.stride + p * from.k_stride] : T(0);
    from = as_side, by_lines = side == Side::a;
  }
  if constexpr (parts > 1)  // all numbers at once: cheaper than part by part
    if (by_lines != (side == Side::a)) {
      if (by_lines)
        transpose_block<lines_per_tile>(from.data, from.stride, copy);
      else
        transpose_block<depth>(from.data, from.k_stride, copy);
      from = as_side, by_lines = !by_lines;
    }
  auto read = [&](const auto& write) {
    if (by_lines)
      read_lines<parts>(from.data, from.stride, range, write);
    else
      read_pairs<parts>(from.data, from.k_stride, range, write);
  };
  auto store = [&](int part, int row, Words words) {
    simd::store(to + part * part_stride + row * depth, words);
  };
  if (parts > 1 || by_lines == (side == Side::a)) return read(store);
  Words square[lines_per_tile];
  read([&](int, int row, Words words) { square[row] = words; });
  transpose_square<16>(square);
  for (int row = 0; row < lines_per_tile; ++row) store(0, row, square[row]);
}

template <int parts, class T>
[[gnu::always_inline]] inline void pack_parts(const PackSource<T>& from, int64_t lines, int64_t k, Side side,
                                              uint16_t* panel) {
  Range range;
  uint16_t* to = panel + header;
  for (int64_t p = 0; p < k; p += depth, to += parts * 2 * tile) {
    if (p % (2 * depth) == 0) stay_awake();
    for (int64_t half = 0; half * lines_per_tile < lines; ++half) {
      const int64_t line = half * lines_per_tile;
      const PackSource<T> block{from.data + line * from.stride + p * from.k_stride, from.stride,
                                from.k_stride};
      pack_block<parts>(block, lines - line, k - p, side, to + half * tile, 2 * tile, range);
    }
  }
  panel[0] = uint16_t(parts > 1 && range.is_beyond_tiles());
}

/// Which parts are multiplied, small products first, and so that tiles stay where they are.
struct Term {
  int a, b;
};
template <Split split>
inline constexpr auto terms = std::array<Term, 1>{{{0, 0}}};
template <>
inline constexpr auto terms<Split::two> = std::array<Term, 3>{{{1, 0}, {0, 1}, {0, 0}}};
template <>
inline constexpr auto terms<Split::two_of_f16> = std::array<Term, 4>{{{1, 0}, {1, 1}, {0, 1}, {0, 0}}};
template <>
inline constexpr auto terms<Split::three> =
    std::array<Term, 6>{{{2, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 2}, {0, 0}}};

/// Tiles 0 to 3 are sums (two for each tile of A), 4 and 5 are A's, 6 and 7 B's.
template <Split split, int tiles_a, int tiles_b, class Machine>
[[gnu::always_inline]] inline void multiply_tiles(Machine& machine, int64_t k, const uint16_t* a,
                                                  const uint16_t* b, float* sums, bool add,
                                                  const NextOutput& next, int64_t first_row, int64_t left) {
  constexpr int64_t row = width * int64_t(sizeof(float)), parts = parts_of(split);
  auto each_sum = [&](auto&& use) {
    use.template operator()<0>(sums);
    if constexpr (tiles_b == 2) use.template operator()<1>(sums + 16);
    if constexpr (tiles_a == 2) use.template operator()<2>(sums + 16 * width);
    if constexpr (tiles_a == 2 && tiles_b == 2) use.template operator()<3>(sums + 16 * width + 16);
  };
  if (add)
    each_sum([&]<int t>(const float* from) { machine.template load<t>(from, row); });
  else
    each_sum([&]<int t>(const float*) { machine.template zero<t>(); });
  // Not all lines at once: there is room for a few dozen on their way.
  const int64_t rows = std::min(left, int64_t(16 * tiles_a)), share = (rows * depth + k - 1) / k;
  for (int64_t p = 0, i = 0; p < k; p += depth, a += parts * 2 * tile, b += parts * 2 * tile, i += share) {
    if (i < rows) next.prefetch(first_row + i, std::min(share, rows - i));
    auto term = [&]<int t>() {
      constexpr Term now = terms<split>[t], before = t > 0 ? terms<split>[t - 1] : Term{-1, -1};
      if constexpr (now.a != before.a) {
        machine.template load<4>(a + now.a * 2 * tile, amx::row_bytes);
        if constexpr (tiles_a == 2) machine.template load<5>(a + (now.a * 2 + 1) * tile, amx::row_bytes);
      }
      if constexpr (now.b != before.b) {
        machine.template load<6>(b + now.b * 2 * tile, amx::row_bytes);
        if constexpr (tiles_b == 2) machine.template load<7>(b + (now.b * 2 + 1) * tile, amx::row_bytes);
      }
      machine.template dot_bf16<0, 4, 6>();
      if constexpr (tiles_b == 2) machine.template dot_bf16<1, 4, 7>();
      if constexpr (tiles_a == 2) machine.template dot_bf16<2, 5, 6>();
      if constexpr (tiles_a == 2 && tiles_b == 2) machine.template dot_bf16<3, 5, 7>();
    };
    [&]<int... t>(std::integer_sequence<int, t...>) { (term.template operator()<t>(), ...); }
    (std::make_integer_sequence<int, int(terms<split>.size())>());
  }
  each_sum([&]<int t>(float* to) { machine.template store<t>(to, row); });
}

template <Split split, class Machine>
void multiply_panels(int64_t rows, int64_t columns, int64_t k, const uint16_t* a, const uint16_t* b,
                     float* sums, bool add, const NextOutput& next) {
  Machine machine;
  const int64_t panel = size(k, parts_of(split));
  for (int64_t row = 0; rows > 0; row += width, rows -= width, a += panel, sums += width * width) {
    if (is_marked(a) || is_marked(b)) continue;
    const uint16_t *from_a = a + header, *from_b = b + header;
    if (rows > 16 && columns > 16)
      multiply_tiles<split, 2, 2>(machine, k, from_a, from_b, sums, add, next, row, rows);
    else if (rows > 16)
      multiply_tiles<split, 2, 1>(machine, k, from_a, from_b, sums, add, next, row, rows);
    else if (columns > 16)
      multiply_tiles<split, 1, 2>(machine, k, from_a, from_b, sums, add, next, row, rows);
    else
      multiply_tiles<split, 1, 1>(machine, k, from_a, from_b, sums, add, next, row, rows);
  }
}

template <int W, int rows>
[[gnu::always_inline]] inline void multiply_rows_exactly(int64_t k, const float* a, const float* b,
                                                         float* sums, bool add) {
  using V = simd::Vector<float, W>;
  constexpr int vectors = int(width) / W;
  for (int v = 0; v < vectors; ++v) {
    V total[rows] = {};
    for (int64_t p = 0; p < k; ++p) {
      const V right = simd::load<V>(b + p * width + v * W);
      for (int i = 0; i < rows; ++i) total[i] += right * a[p * width + i];
    }
    for (int i = 0; i < rows; ++i) {
      float* to = sums + i * width + v * W;
      simd::store(to, add ? V(simd::load<V>(to) + total[i]) : total[i]);
    }
  }
}

}  // namespace

template <class T>
void pack(const PackSource<T>& from, int64_t lines, int64_t k, int parts, Side side, uint16_t* to) {
  simd::run([&]<int W>() {
    if constexpr (std::is_same_v<T, float>) switch (parts) {
        case 2:
          return pack_parts<2>(from, lines, k, side, to);
        case 3:
          return pack_parts<3>(from, lines, k, side, to);
        default:
          break;
      }
    pack_parts<1>(from, lines, k, side, to);
  });
}

template void pack(const PackSource<float>&, int64_t, int64_t, int, Side, uint16_t*);
template void pack(const PackSource<BFloat16>&, int64_t, int64_t, int, Side, uint16_t*);

void multiply(int64_t rows, int64_t columns, int64_t k, Split split, const uint16_t* a, const uint16_t* b,
              float* sums, bool add, const NextOutput& next) {
  auto by = [&]<class Machine>() {
    switch (split) {
      case Split::none:
        return multiply_panels<Split::none, Machine>(rows, columns, k, a, b, sums, add, next);
      case Split::two:
        return multiply_panels<Split::two, Machine>(rows, columns, k, a, b, sums, add, next);
      case Split::two_of_f16:
        return multiply_panels<Split::two_of_f16, Machine>(rows, columns, k, a, b, sums, add, next);
      case Split::three:
        return multiply_panels<Split::three, Machine>(rows, columns, k, a, b, sums, add, next);
    }
  };
  if (simd::tiles() == simd::Tiles::amx)
    by.operator()<amx::Instructions>();
  else
    by.operator()<amx::Model>();
}

void stay_awake() {
  if (simd::tiles() == simd::Tiles::amx) amx::Instructions().dot_bf16<0, 4, 6>();
}

void multiply_exactly(int64_t rows, int64_t k, const float* a, const float* b, float* sums, bool add) {
  simd::run([&]<int W>() {
    for (int64_t i = 0; i < rows; i += 4) multiply_rows_exactly<W, 4>(k, a + i, b, sums + i * width, add);
  });
}

}  // namespace reprise::kernels::gemm_detail::tile_panel
