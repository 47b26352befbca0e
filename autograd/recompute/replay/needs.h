// Needs: which of a region's operations a replay must run to rebuild some slots.
#pragma once

#include <set>
#include <vector>

#include "reprise/autograd/recompute/replay/recording.h"

namespace reprise::recompute {

struct Needs {
  std::vector<bool> runs;    ///< by operation: it is played; the others only hand something on
  std::set<ResultId> reads;  ///< the results that a slot, or an operation that runs, reads

  /// Whether anything reads what operation `op` gives.
  bool reads_results_of(size_t op) const;
};

/// `rebuild`: the slots wanted. Results that are `at_hand` need no operation to run.
Needs needs_of(const Recording& run, const std::vector<bool>& rebuild, const std::set<ResultId>& at_hand);

}  // namespace reprise::recompute
