// Random numbers of a training step: a function of the run's seed, the step and the micro-batch, so that neither the number
// of ranks nor a restart changes a draw.
#pragma once

#include <cstdint>

namespace reprise::train {

/// Starts this thread's default generator anew for micro-batch `g` of a step: its seed is the first 64 bits of
/// philox_block(seed ^ a constant, step, g), its offset 0.
void seed_micro_batch(uint64_t seed, int64_t step, int64_t g);
/// The same for what follows the micro-batches of a step: every rank draws alike there.
void seed_update(uint64_t seed, int64_t step);

}  // namespace reprise::train
