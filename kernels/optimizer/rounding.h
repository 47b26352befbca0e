// How parameters and moments of 16 bits are rounded where rounding to nearest would lose updates: at random, or to a half
// whose other half is kept. Numbers are given as the bits of an f32.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "reprise/core/random.h"

namespace reprise::kernels {

/// Note [Draws of an optimizer]
/// Element i of a parameter has number i % 8 of the eight that philox_block(seed, offset, i / 8) holds, 16 bits each, low
/// half of a word first; offset = the updates so far x the parameters of the optimizer + the place of this one. So they
/// depend neither on threads nor on launches. Parameter and moments have sequences of their own: the block's upper bits.
enum class DrawsOf : uint8_t { parameter, first_moment, second_moment };
inline constexpr int kDrawsInBlock = 8;

/// Where the draws of one tensor's update begin: its first element is number `first` of the parameter, a multiple of eight.
struct DrawSequence {
  uint64_t seed = 0, offset = 0, first = 0;

  constexpr uint64_t block_of(DrawsOf what, uint64_t element) const {
    return (uint64_t(what) << 61) + (first + element) / uint64_t(kDrawsInBlock);
  }
  constexpr std::array<uint32_t, 4> block(DrawsOf what, uint64_t element) const {
    return philox_block(seed, offset, block_of(what, element));
  }
};

/// Number i of a block: uniform in [0, 2^16).
constexpr uint32_t draw_of(const std::array<uint32_t, 4>& block, uint64_t i) {
  return block[std::size_t(i / 2)] >> (16 * (i % 2)) & 0xffffu;
}

constexpr bool is_nan_bits(uint32_t bits) { return (bits & 0x7fffffffu) > 0x7f800000u; }

/// The bits of a bf16 next to the number, above or below in magnitude: above for as many of the 65,536 u as it is far
/// from the one below. So the mean over all u is the number, and a bf16 stays. Nothing finite becomes infinite.
constexpr uint16_t rounded_at_random(uint32_t bits, uint32_t u) {
  if ((bits & 0x7f800000u) == 0x7f800000u) return uint16_t(bits >> 16 | (is_nan_bits(bits) ? 0x40u : 0u));
  const uint32_t up = (bits + u) >> 16;
  return uint16_t((up & 0x7fffu) == 0x7f80u ? up - 1 : up);
}

/// An f32 in two halves: a bf16, rounded half up in magnitude, and what that lacks, in units of the f32's last bit.
struct SplitFloat {
  uint16_t upper = 0;
  int16_t rest = 0;
};

/// A NaN comes back as a NaN, all others to the bit.
constexpr SplitFloat split(uint32_t bits) {
  if (is_nan_bits(bits)) return {uint16_t(bits >> 16 | 0x40u), 0};
  const uint32_t upper = (bits + 0x8000u) >> 16;
  return {uint16_t(upper), int16_t(uint16_t(bits - (upper << 16)))};
}

/// A zero that others wrote to the upper half has no room for a rest below it, which would wrap around.
constexpr uint32_t joined(SplitFloat x) {
  const uint32_t upper = uint32_t(x.upper) << 16;
  return x.rest < 0 && (x.upper & 0x7fffu) == 0 ? upper : upper + uint32_t(int32_t(x.rest));
}

}  // namespace reprise::kernels
