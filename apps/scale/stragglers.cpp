#include "reprise/apps/scale/stragglers.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "reprise/core/random.h"

namespace reprise::apps::scale {
namespace {

constexpr uint64_t steps =
    400;  // the largest of many normals has a deviation of some 0.4, so that the mean is known to 0.02

// Box and Muller 1958.
double normal(uint64_t seed, uint64_t step, uint64_t rank) {
  const auto words = philox_block(seed, step, rank);
  const double radius = std::sqrt(-2 * std::log(1 - double(to_unit_float(words[0]))));
  return radius * std::cos(2 * std::numbers::pi * double(to_unit_float(words[1])));
}

}  // namespace

double slowest_of(int ranks, const Stragglers& stragglers) {
  if (ranks == 1 || stragglers.spread == 0) return 1;
  double sum = 0;
  for (uint64_t step = 0; step < steps; ++step) {
    double largest = normal(stragglers.seed, step, 0);
    for (int rank = 1; rank < ranks; ++rank)
      largest = std::max(largest, normal(stragglers.seed, step, uint64_t(rank)));
    sum += largest;
  }
  return 1 + stragglers.spread * sum / double(steps);
}

}  // namespace reprise::apps::scale
