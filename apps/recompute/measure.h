// Measuring training steps: the memory of one, and the time of strategies in turns.
#pragma once

#include <string>
#include <vector>

#include "reprise/apps/recompute/strategies.h"
#include "reprise/nn/memory/memory_timeline.h"

namespace reprise::apps::recompute {

/// Bytes of one training step.
struct StepMemory {
  size_t peak = 0;              ///< of everything on the device
  size_t peak_activations = 0;  ///< of activations and of what recompute makes in their place
  size_t held = 0;              ///< of these, what is there between forward and backward
};

/// One step in which every allocation is recorded.
struct RecordedStep {
  double loss = 0;
  nn::MemoryTimeline timeline{};
  size_t held = 0;
  StepMemory memory() const { return {timeline.peak(), timeline.peak_activations(), held}; }
};
RecordedStep record_step(Trainee& trainee, int64_t step, const Batch& batch);

/// What a strategy needs for a step.
struct StrategyResult {
  std::string strategy;
  StepMemory memory;
  Prepared prepared;
  double seconds = 0;       ///< the median of its steps
  double times_slower = 1;  ///< than the first strategy: the median over the rounds, in each of which the
                            ///< machine is as busy for all
};

/// Trains one model: first a recorded step with each strategy, then `rounds` timed ones, in turns, so that
/// whatever else the machine does meets all of them. The first strategy is the one to compare with.
std::vector<StrategyResult> measure(const Workload& workload, const std::vector<std::string>& strategies,
                                    int64_t rounds);

/// By how many percent its steps take longer than those of the first strategy.
double overhead_percent(const StrategyResult& result);

double median(std::vector<double> values);
/// By how many percent `value` is below `base`.
double percent_below(double base, double value);
double mib(auto bytes) { return double(bytes) / 1024 / 1024; }
/// "12.3 MiB".
std::string in_mib(size_t bytes);

}  // namespace reprise::apps::recompute
