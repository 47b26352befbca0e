// The batch and the strategy of recompute that together train fastest within the memory: a larger batch may be worth what it costs to
// recompute, or not.
//
//   const auto timed = rp::fastest_batches({.model = net, .loss = loss, .update = update, .budget = 2 << 30});
//   net.set_recompute(rp::parse_strategy(timed.front().strategy));  // and train with timed.front().rows
#pragma once

#include <string>
#include <vector>

#include "reprise/nn/memory/memory_report.h"

namespace reprise::nn {

/// A batch under a strategy, and how fast it was.
struct TimedBatch {
  std::string strategy;  ///< as `parse_strategy` takes it
  int64_t rows = 0;      ///< of the batch
  double seconds = 0;    ///< of a step, the median
  /// What is to be large; times the tokens of a row, tokens per second.
  double rows_per_second() const { return double(rows) / seconds; }
};

/// Of each strategy the largest batch that fits (max_batch), half of it and a quarter, timed in turns: the fastest per row first; empty
/// where none fits. A batch that fits without recompute is tried without it alone, and `step.rows` is not asked about. Timed are forward
/// and backward, and `step.update` where there is one: then these steps train; else the model is as before. Rounds are at least 1. Errors
/// as of `memory_report`, and within a NoCompute, which has no times.
std::vector<TimedBatch> fastest_batches(const TrainingStepCase& step,
                                        const MemoryReportOptions& options = {});

}  // namespace reprise::nn

namespace reprise {
using nn::fastest_batches;
using nn::TimedBatch;
}  // namespace reprise
