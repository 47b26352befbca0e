// Numbers of 8 bits in blocks: what moments may be stored as (Dettmers et al. 2022, "8-bit Optimizers via Block-wise
// Quantization").
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace reprise::kernels {

/// Note [Blocks of 8-bit moments]
/// 256 elements share an f32, their largest in magnitude with its sign: so that one is exact, whatever its sign. An element
/// is that times a value of the dynamic map (Dettmers 2016): six decades below 1, the upper ones in more steps, and 0.
///
/// Rounding is at random between the two values around a number, where the paper takes the nearest: with beta2 = 0.999 a
/// second moment changes by a thousandth per update, while values of the map are 1 to 50 % apart, so the nearest one would
/// stand still for hundreds of updates. A second moment above 0 never becomes 0: the update divides by its root (Li, Chen
/// and Zhu 2023).
inline constexpr int kQuantizedBlock = 256;

/// The blocks of so many elements.
constexpr int64_t quantized_blocks(int64_t elements) {
  return (elements + kQuantizedBlock - 1) / kQuantizedBlock;
}

/// Smaller tensors keep their moments in f32: they take no room, and embeddings and norms are sensitive (Dettmers et al.).
inline constexpr int64_t kLeastQuantized = 4096;

enum class DynamicMap : uint8_t {
  with_sign,  ///< [-0.993, 1], code kDynamicZero is 0
  positive,   ///< [0, 1], code 0 is 0
};

/// The code of 0 in the map with a sign; in the other one it is 0.
inline constexpr int kDynamicZero = 127;

/// The value of a code; they rise with it.
constexpr float dynamic_value(DynamicMap map, int code) {
  const bool has_sign = map == DynamicMap::with_sign;
  const int signed_code = has_sign ? code - kDynamicZero : code;
  const int place = signed_code < 0 ? -signed_code : signed_code;
  if (place == 0) return 0;
  if (code == 255) return 1;
  int steps = has_sign ? 1 : 2, first = 1;  // of the decade, each of which has twice as many
  double decade = 1e-6;
  for (; place >= first + steps; decade *= 10) {
    first += steps;
    steps *= 2;
  }
  const double value = decade * (0.1 + 0.9 * (double(place - first) + 0.5) / double(steps));
  return float(signed_code < 0 ? -value : value);
}

using DynamicValues = std::array<float, 256>;

constexpr DynamicValues dynamic_values(DynamicMap map) {
  DynamicValues values{};
  for (int code = 0; code < 256; ++code) values[std::size_t(code)] = dynamic_value(map, code);
  return values;
}

// Always inlined: a call from code for wide vectors into code without them costs more than what these compute.

/// A map as a list of magnitudes that rise: of place 0 is 0, of place `most` the largest.
struct Magnitudes {
  const float* values;
  int zero, most, steps;  ///< the code of 0; steps of the lowest decade

  /// Of the numbers with the sign of x; `values`: those of all codes.
  constexpr Magnitudes(DynamicMap map, const float* values_, float x)
      : values(values_ + (map == DynamicMap::with_sign ? kDynamicZero : 0)),
        zero(map == DynamicMap::with_sign ? kDynamicZero : 0),
        most(map == DynamicMap::positive ? 255
             : x < 0                     ? 127
                                         : 128),
        steps(map == DynamicMap::with_sign ? 1 : 2) {}

  /// The last place whose magnitude is not above x, in [0, 1]: by the formula, mended by what the table says.
  [[gnu::always_inline]] constexpr int below(float x) const {
    int of_decade = steps;
    float inverse = 1e6f, bound = 1e-6f;
    for (int decade = 1; decade < 7; ++decade) {
      const bool is_above = x >= bound;
      of_decade *= is_above ? 2 : 1;
      inverse *= is_above ? 0.1f : 1.0f;
      bound *= 10;
    }
    const float within = (x * inverse - 0.1f) * (float(of_decade) * (1 / 0.9f)) - 0.5f;  // at least -1
    int place = 1 + of_decade - steps + int(within + 1) - 1;
    place = place < most ? place : most - 1;
    place -= values[place] > x ? 1 : 0;
    return place + (values[place + 1] <= x ? 1 : 0);
  }
  [[gnu::always_inline]] constexpr uint8_t code(int place, float x) const {
    const int least = zero == 0 && x > 0 ? 1 : 0;  // of second moments
    place = place > least ? place : least;
    return uint8_t(x < 0 ? zero - place : zero + place);
  }
};

/// NaN is 1: the block's largest is NaN then.
[[gnu::always_inline]] constexpr float magnitude_of(float x) {
  const float size = x < 0 ? -x : x;
  return size <= 1 ? size : 1;
}

/// A code next to x, further from 0 for as many of the 65,536 u as x is far from the nearer one: right on average, between
/// the least and the largest value, but for second moments next to 0. `values` are the map's.
[[gnu::always_inline]] constexpr uint8_t code_at_random(DynamicMap map, const float* values, float x,
                                                        uint32_t u) {
  const Magnitudes magnitudes(map, values, x);
  const float size = magnitude_of(x);
  const int below = magnitudes.below(size), above = below < magnitudes.most ? below + 1 : below;
  const float low = magnitudes.values[below], gap = magnitudes.values[above] - low;
  return magnitudes.code(float(u) * gap < (size - low) * 65536.0f ? above : below, x);
}

/// The code nearest to x, of two the one nearer to 0.
[[gnu::always_inline]] constexpr uint8_t nearest_code(DynamicMap map, const float* values, float x) {
  const Magnitudes magnitudes(map, values, x);
  const float size = magnitude_of(x);
  const int below = magnitudes.below(size), above = below < magnitudes.most ? below + 1 : below;
  const bool is_above = magnitudes.values[above] - size < size - magnitudes.values[below];
  return magnitudes.code(is_above ? above : below, x);
}

/// The larger in magnitude, the positive one of two alike; NaN wins.
[[gnu::always_inline]] constexpr float larger(float a, float b) {
  const float size_a = a < 0 ? -a : a, size_b = b < 0 ? -b : b;
  if (a != a) return a;
  if (b != b) return b;
  return size_a > size_b ? a : size_b > size_a ? b : a > b ? a : b;
}

/// What a number is of its block's largest one.
[[gnu::always_inline]] constexpr float share_of(float x, float largest) {
  return largest != 0 ? x / largest : 0;
}

}  // namespace reprise::kernels
