// Timing several ways to run a step in turns, so that whatever else the machine does meets all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace reprise::nn {

/// How several measurements spread, in their unit.
struct Spread {
  double least = 0;   ///< of them
  double median = 0;  ///< the middle one, or the mean of the middle two
  double most = 0;    ///< of them
};
/// Error if there are none.
Spread spread_of(std::vector<double> values);

/// What one of several took.
struct Turns {
  Spread seconds{};         ///< over the rounds
  double times_slower = 1;  ///< than the first: the median over the rounds
};
/// The times of each of `count`, over `rounds` in which each has its turn; `seconds` runs one and returns how long it took.
/// Empty without rounds.
std::vector<Turns> time_in_turns(size_t count, int64_t rounds,
                                 const std::function<double(size_t which)>& seconds);

}  // namespace reprise::nn
