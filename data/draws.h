// Draws: the random numbers of one sample or of one batch, a pure function of what they are for. Nothing keeps
// a position, so which thread, rank or restart asks changes no number.
#pragma once

#include <cstdint>

#include "reprise/core/error.h"
#include "reprise/core/random.h"

namespace reprise::data {

/// What a run's seed is combined with, so that no two uses of it share a number; the constants are ASCII.
enum class Use : uint64_t {
  order = 0x6f7264657200,         ///< which image stands at which place of an epoch
  augmentation = 0x6175676d656e,  ///< transforms of a sample
  noise = 0x6e6f69736500,         ///< what erasing fills a box with
  mixing = 0x6d6978696e67,        ///< lambda and box of a pair of rows
  held_out = 0x68656c646f75,      ///< which images a run holds out
  substitute = 0x737562737400,    ///< what stands in for an image that cannot be read
  mask_sizes = 0x73697a657300,    ///< of the blocks of a step
  mask_places = 0x706c61636573,   ///< of a sample's blocks
  mask_cuts = 0x637574730000,     ///< patches that a sample's context loses
  samples = 0x73616d706c65,       ///< what a DataLoader's samples draw by the thread's generator
};
constexpr uint64_t seed_for(Use use, uint64_t seed) { return seed ^ uint64_t(use); }  ///< the use's own seed

/// 64 random bits as an integer in [0, n), n > 0: their product's upper half, without the bias of a remainder.
constexpr int64_t bits_below(uint64_t bits, int64_t n) {
  __extension__ using Wide = unsigned __int128;
  return int64_t(Wide(bits) * uint64_t(n) >> 64);
}

/// Draws `first`, `first` + 1, ... of the sequence that (seed, offset) names, each a block of Philox.
class Draws {
 public:
  /// `count` of them; to take more is a Bug.
  Draws(uint64_t seed, uint64_t offset, uint64_t first, uint64_t count)
      : seed_(seed), offset_(offset), next_(first), end_(first + count) {}

  /// 64 random bits.
  uint64_t bits() {
    const auto words = block();
    return uint64_t(words[1]) << 32 | words[0];
  }
  double uniform() { return double(bits() >> 11) * 0x1p-53; }                         ///< in [0, 1)
  double uniform(double low, double high) { return low + (high - low) * uniform(); }  ///< in [low, high)
  int64_t below(int64_t n) { return bits_below(bits(), n); }                          ///< in [0, n)
  bool chance(double probability) { return uniform() < probability; }                 ///< true so often
  double normal();                  ///< mean 0, deviation 1: Box and Muller 1958
  double gamma(double shape);       ///< scale 1, by Marsaglia and Tsang 2000; several draws
  double beta(double a, double b);  ///< from two gammas

 private:
  std::array<uint32_t, 4> block() {
    invariant(next_ < end_, "draws: more were taken than there are");
    return philox_block(seed_, offset_, next_++);
  }

  uint64_t seed_, offset_, next_, end_;
};

/// Numbers a transform has; more is a Bug.
constexpr uint64_t draws_per_transform = 64;

/// The draws of one transform of a sample. `key` is the sample's (`Order::Sample`).
inline Draws sample_draws(uint64_t seed, uint64_t key, int transform) {
  return {seed_for(Use::augmentation, seed), key, draws_per_transform * uint64_t(transform),
          draws_per_transform};
}

}  // namespace reprise::data
