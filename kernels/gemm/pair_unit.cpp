// Packing of pairs of bf16, and their products.
#include "reprise/kernels/gemm/pair_unit.h"

#include "reprise/kernels/cpu/bf16_pairs.h"

namespace reprise::kernels::gemm_detail::pair_panel {
namespace {

using bf16_pairs::lanes;
using bf16_pairs::Words;

uint32_t pair(BFloat16 first, BFloat16 second) {
  return uint32_t(std::bit_cast<uint16_t>(second)) << 16 | std::bit_cast<uint16_t>(first);
}

/// Pairs [begin, end) from any strides, a number at a time.
template <int64_t width>
[[gnu::always_inline]] inline void pack_pairs(const PackSource<BFloat16>& from, int64_t lines, int64_t k,
                                              int64_t begin, int64_t end, uint32_t* to) {
  for (int64_t p = begin; p < end; ++p)
    for (int64_t line = 0; line < width; ++line) {
      const BFloat16* at = from.data + line * from.stride + 2 * p * from.k_stride;
      const bool both = 2 * p + 1 < k;
      to[p * width + line] = line < lines ? pair(at[0], both ? at[from.k_stride] : BFloat16()) : 0;
    }
}

/// Lines that are contiguous along K: squares of 16 lines and 16 pairs. Returns how many pairs it packed.
template <int64_t width>
[[gnu::always_inline]] inline int64_t pack_lines(const PackSource<BFloat16>& from, int64_t lines, int64_t k,
                                                 uint32_t* to) {
  int64_t done = 0;
  for (; 2 * (done + lanes) <= k; done += lanes)
    for (int64_t first = 0; first < width; first += lanes) {
      Words square[lanes];
      for (int64_t i = 0; i < lanes; ++i) {
        const BFloat16* at = from.data + (first + i) * from.stride + 2 * done;
        const bool there = first + i < std::min(lines, width);
        if (there) __builtin_prefetch(at + 2 * 2 * lanes);
        square[i] = there ? simd::load<Words>(at) : Words{};
      }
      transpose_square<lanes>(square);
      // Where the panel is narrower than a vector, the next pair writes over what is too much.
      for (int64_t i = 0; i < lanes; ++i) simd::store(to + (done + i) * width + first, square[i]);
    }
  return done;
}

/// A whole panel of lines that lie side by side. Returns how many pairs it packed: a panel that is narrower than a vector
/// reads past its lines, so the last pair is left.
template <int64_t width>
[[gnu::always_inline]] inline int64_t pack_side_by_side(const PackSource<BFloat16>& from, int64_t k,
                                                        uint32_t* to) {
  using Row = simd::Vector<uint16_t, lanes>;
  constexpr bool fits = width % lanes == 0;
  if (!fits && from.k_stride < lanes - width % lanes) return 0;
  const int64_t whole = fits ? k / 2 : (k - 1) / 2;
  for (int64_t p = 0; p < whole; ++p)
    for (int64_t first = 0; first < width; first += lanes) {
      const BFloat16 *even = from.data + 2 * p * from.k_stride + first, *odd = even + from.k_stride;
      __builtin_prefetch(even + 16 * from.k_stride);
      __builtin_prefetch(odd + 16 * from.k_stride);
      const Words low = __builtin_convertvector(simd::load<Row>(even), Words);
      const Words high = __builtin_convertvector(simd::load<Row>(odd), Words);
      simd::store(to + p * width + first, Words(high << 16 | low));
    }
  return whole;
}

template <int64_t width>
void pack_panel(const PackSource<BFloat16>& from, int64_t lines, int64_t k, uint32_t* to) {
  simd::run([&]<int W>() {
    int64_t done = 0;
    if (from.k_stride == 1)
      done = pack_lines<width>(from, lines, k, to);
    else if (from.stride == 1 && lines == width)
      done = pack_side_by_side<width>(from, k, to);
    pack_pairs<width>(from, lines, k, done, pairs(k), to);
  });
}

template <class Step>
struct Dot {
  using Sum = float;
  using Packed = uint32_t;
  [[gnu::always_inline]] static bf16_pairs::Sums add(bf16_pairs::Sums sum, Words b, uint32_t a) {
    return Step::add(sum, b, Words{} + a);
  }
};

}  // namespace

void pack(const PackSource<BFloat16>& from, int64_t lines, int64_t k, int64_t width, uint32_t* to) {
  width == rows ? pack_panel<rows>(from, lines, k, to) : pack_panel<columns>(from, lines, k, to);
}

void pack_widened(const float* from, int64_t k, int64_t width, uint32_t* to) {
  for (int64_t p = 0; p < pairs(k); ++p, from += 2 * width, to += width)
    for (int64_t i = 0; i < width; ++i) {
      const uint32_t odd = 2 * p + 1 < k ? std::bit_cast<uint32_t>(from[width + i]) : 0;
      to[i] = (odd & 0xffff0000u) | std::bit_cast<uint32_t>(from[i]) >> 16;
    }
}

void multiply(int64_t count, int64_t width, int64_t k, const uint32_t* a, const uint32_t* b, float* sums,
              bool add, const NextOutput& next) {
  const int64_t depth = pairs(k);
  auto by = [=]<class Step>() {
    multiply_panels<Dot<Step>, 16>(count, width, depth, a, panel_stride(rows, depth), b, sums, add, next);
  };
  if (simd::bf16_pairs() != simd::Bf16Pairs::avx512bf16) return by.template operator()<bf16_pairs::Model>();
  simd::run([=]<int W>() {
    if constexpr (W == 16) by.template operator()<bf16_pairs::Instruction>();
  });
}

}  // namespace reprise::kernels::gemm_detail::pair_panel
