// The batch and the strategy of recompute that together train fastest within the memory: a larger batch may be worth what it costs to
// recompute, or not.
//
//   const auto timed = rp::fastest_batches({.model = net, .loss = loss, .update = update, .budget = 2 << 30});
//   net.set_recompute(rp::parse_strategy(timed.front().strategy));  // and train with timed.front().rows
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reprise/nn/memory/memory_report.h"

namespace reprise::nn {

/// A batch under a strategy, and how fast it was.
struct TimedBatch {
  std::string strategy;  ///< as `parse_strategy` takes it
  int64_t rows = 0;      ///< of the batch
  double seconds = 0;    ///< of a step, the median
  size_t peak = 0;       ///< predicted bytes of a step (StepMemory::peak), with the sums of its micro-batches
  int64_t micro_batches = 1;  ///< such batches per update
  /// What is to be large; times the tokens of a row, tokens per second.
  double rows_per_second() const { return double(rows) / seconds; }
};

/// What `fastest_batches` chooses from, and how long it times.
struct FastestBatchOptions {
  /// As of MemoryReportOptions.
  std::vector<std::string> strategies = MemoryReportOptions().strategies;
  int rounds = 3;  ///< of timed steps, in which the candidates take turns
  /// The planner's plan for a batch that does not fit without recompute is tried too.
  bool plans = false;
  /// Micro-batches of one update divide it into equal batches; 0: any batch will do.
  int64_t rows_per_update = 0;
  /// The `sums` of the TrainingStepCase, by the micro-batches of an update; empty: its own, and at least 1 for several.
  std::function<int64_t(int64_t micro_batches)> sums{};
  size_t most_bytes = 0;  ///< of a step; 0: nine tenths of the budget
  /// What a step takes that finds so many sets of gradients, 0 or 1, where it is not what the model takes here, as ranks share it; empty:
  /// it is. Steps are timed here all the same.
  std::function<StepMemory(const RecomputeStrategy& strategy, int64_t sums)> measure{};
};

/// Times in turns, for each strategy, the largest batch that fits, half of it and a quarter, or what comes next below among the batches
/// that there are to choose from: the fastest per row first; empty where none fits. A batch that fits without recompute is tried without
/// it alone, and `step.rows` is not asked about. Timed are forward and backward of one batch, and `step.update` where there is one: then
/// these steps train; else the model is as before. Rounds are at least 1. A plan is named as "plan:[0-2] 3". Errors as of
/// `memory_report`, within a NoCompute, which has no times, and where no batch divides the rows of an update.
std::vector<TimedBatch> fastest_batches(const TrainingStepCase& step,
                                        const FastestBatchOptions& options = {});

/// The one of these strategies and batches that is predicted to take least, plans left out; nothing is timed. Errors are those of
/// `fastest_batches`.
TimedBatch least_batch(const TrainingStepCase& step, const FastestBatchOptions& options = {});

}  // namespace reprise::nn

namespace reprise {
using nn::fastest_batches;
using nn::FastestBatchOptions;
using nn::least_batch;
using nn::TimedBatch;
}  // namespace reprise
