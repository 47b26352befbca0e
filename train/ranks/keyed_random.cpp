#include "reprise/train/ranks/keyed_random.h"

#include "reprise/core/random.h"

namespace reprise::train {
namespace {

// So that steps do not draw what has made the weights.
constexpr uint64_t steps_seed = 0x7374657073;

void seed_block(uint64_t seed, int64_t step, uint64_t block) {
  const auto words = philox_block(seed ^ steps_seed, uint64_t(step), block);
  manual_seed(uint64_t(words[1]) << 32 | words[0]);
}

}  // namespace

void seed_micro_batch(uint64_t seed, int64_t step, int64_t g) { seed_block(seed, step, uint64_t(g)); }

void seed_update(uint64_t seed, int64_t step) { seed_block(seed, step, ~uint64_t(0)); }

}  // namespace reprise::train
