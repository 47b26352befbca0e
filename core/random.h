// Random numbers: Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"). A draw
// is a pure function of (seed, offset, index), the same on every device and for any number of threads.
#pragma once

#include <array>
#include <cstdint>

namespace reprise {

/// A stream of random numbers as a position: each op that draws takes one offset. Two integers are the whole
/// state.
class Generator {
 public:
  /// A position in a stream.
  struct State {
    uint64_t seed = 0;    ///< names the stream
    uint64_t offset = 0;  ///< the operations that drew before
    /// Two positions from which the same numbers follow.
    friend bool operator==(const State&, const State&) = default;
  };

  explicit Generator(uint64_t seed = 0) : state_{seed, 0} {}  ///< at the beginning of the stream of `seed`

  /// The (seed, offset) for one op's draws; the next call gets the next offset.
  State next() {
    State drawn = state_;
    ++state_.offset;
    return drawn;
  }

  State state() const { return state_; }           ///< of the next draw
  void set_state(State state) { state_ = state; }  ///< goes on from there

 private:
  State state_;
};

/// The generator that random ops use when they are given none. One a thread, so threads never race for
/// offsets.
Generator& default_generator();

/// Restarts this thread's default generator.
void manual_seed(uint64_t seed);

// What follows is for operations and the engine, and may change.

/// Ten rounds of Philox4x32. Counter and key are little-endian words; known answers are in the paper's
/// Random123.
constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t product0 = uint64_t(0xD2511F53u) * counter[0], product1 = uint64_t(0xCD9E8D57u) * counter[2];
    counter = {uint32_t(product1 >> 32) ^ counter[1] ^ key[0], uint32_t(product1),
               uint32_t(product0 >> 32) ^ counter[3] ^ key[1], uint32_t(product0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

/// Four 32-bit draws: number `block` of the sequence that (seed, offset) names. Element i of a tensor uses
/// word i % 4 of block i / 4.
constexpr std::array<uint32_t, 4> philox_block(uint64_t seed, uint64_t offset, uint64_t block) {
  return philox4x32({uint32_t(block), uint32_t(block >> 32), uint32_t(offset), uint32_t(offset >> 32)},
                    {uint32_t(seed), uint32_t(seed >> 32)});
}

/// Maps 32 bits to [0, 1): the upper 24 bits, exact in f32.
constexpr float to_unit_float(uint32_t bits) { return float(bits >> 8) * 0x1p-24f; }

}  // namespace reprise
