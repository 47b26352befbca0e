// Normal numbers from Philox words, by Box and Muller, "A note on the generation of random normal deviates", 1958:
// the same steps on every device, through its own log, cos and sin. Note [Draws of element i] in random_fill.cpp
// says which words make which element.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "reprise/core/random.h"

namespace reprise::kernels {

/// Normal or uniform numbers of type C that a block of four words makes.
template <class C>
inline constexpr int numbers_per_block = sizeof(C) == 8 ? 2 : 4;

/// The upper 53 bits of the k-th 64 bits of a block.
constexpr uint64_t upper_53_bits(const std::array<uint32_t, 4>& words, int k) {
  return ((uint64_t(words[size_t(2 * k + 1)]) << 32) | words[size_t(2 * k)]) >> 11;
}

/// The standard normal numbers of a block, to y.
template <class C>
constexpr void standard_normals(const std::array<uint32_t, 4>& words, C* y) {
  for (int pair = 0; pair < numbers_per_block<C> / 2; ++pair) {
    C unit{}, turn{};
    if constexpr (sizeof(C) == 8) {
      unit = (double(upper_53_bits(words, 0)) + 0.5) * 0x1p-53;
      turn = double(upper_53_bits(words, 1)) * 0x1p-53;
    } else {
      unit = (float(words[size_t(2 * pair)]) + 0.5f) * 0x1p-32f;
      turn = to_unit_float(words[size_t(2 * pair + 1)]);
    }
    const C radius = std::sqrt(C(-2) * std::log(unit)), angle = C(2 * std::numbers::pi) * turn;
    y[2 * pair] = radius * std::cos(angle);
    y[2 * pair + 1] = radius * std::sin(angle);
  }
}

}  // namespace reprise::kernels
