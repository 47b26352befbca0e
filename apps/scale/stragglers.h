// Stragglers: a step takes as long as the slowest of its ranks.
#pragma once

#include <cstdint>

namespace reprise::apps::scale {

/// Each rank's compute time of a step is 1 + spread z, z standard normal, a pure function of (seed, step, rank).
struct Stragglers {
  double spread = 0.01;  ///< standard deviation
  uint64_t seed = 1337;
};

/// The mean, over 400 steps, of the largest of the times of `ranks` ranks; 1 for one rank.
double slowest_of(int ranks, const Stragglers& stragglers);

}  // namespace reprise::apps::scale
