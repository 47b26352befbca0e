// The memory of any model's training step on one page: what each strategy of recompute takes and costs, which batch fits, and what
// the bytes are.
//
//   rp::nn::BlockStack net;  // ... its blocks
//   rp::optim::AdamW optimizer(net.parameters());
//   auto loss = [&](int64_t rows) { return rp::square(net(rp::randn({rows, 64}))).mean(); };
//   std::cout << rp::memory_report({.model = net, .loss = loss, .optimizer = &optimizer, .rows = 32});
#pragma once

#include <iosfwd>
#include <optional>

#include "reprise/nn/memory/step_memory.h"
#include "reprise/nn/recompute_setting.h"

namespace reprise::nn {

/// A training step: forward, backward, the norm of the gradients, and the optimizer's step.
struct TrainingStepCase {
  Module& model;  ///< whose parameters the step trains; its gradients are dropped
  /// The loss of so many rows, as training computes it; on the device of the model's parameters.
  std::function<Tensor(int64_t rows)> loss;
  /// What recomputes in the model. Null: the model itself if it is a RecomputeSetting, such as BlockStack and UNet; else there
  /// is nothing to recompute, and `none` is the one strategy.
  RecomputeSetting* blocks = nullptr;
  /// Makes its state, if there is none yet. Null: the step ends with the gradients.
  optim::Optimizer* optimizer = nullptr;
  int64_t rows = 1;      ///< of the batch that is asked about
  int64_t smallest = 1;  ///< rows that the loss takes; multiples of it too
  size_t budget = 0;     ///< bytes for tensors; 0: `memory_for_tensors`
  /// Ends a step of `compare_strategies` and `profile`, from the gradients, which it drops: they train then. Empty: they leave
  /// the model as it is.
  std::function<void()> update{};
  /// Sets of gradients that the last micro-batch of an update finds: 1 where several are added into `grad`, more where their
  /// sums wait for one another (distributed::most_sums).
  int64_t sums = 0;
  /// Sets a strategy of `blocks`, and of others that go with them, as a predictor's; empty: of `blocks` alone.
  std::function<void(const RecomputeStrategy&)> set_recompute{};
};

/// What a strategy takes.
struct StrategyMemory {
  std::string strategy;   ///< as `parse_strategy` takes it, such as "every:2"
  size_t peak = 0;        ///< predicted bytes of a step of `rows` (StepMemory::peak)
  int64_t most_rows = 0;  ///< the largest batch within nine tenths of the budget, in steps of `smallest`
  bool fits = false;      ///< `rows` do, within the budget
  // From steps of `rows` that were simulated, where they fit; else 0.
  size_t peak_activations = 0;  ///< bytes of these, and of what recompute makes in their place; 0: unknown
  double seconds = 0;           ///< forward and backward, the median; 0: not timed
  double times_slower = 0;      ///< than the first strategy that fits, the median over rounds; 0: not timed
};

/// The answer. `<<` prints it as a table with advice.
struct MemoryReport {
  Device device;      ///< of the model's parameters
  int64_t rows = 0;   ///< that were asked about
  size_t budget = 0;  ///< bytes for tensors: what was given, or `memory_for_tensors`
  /// @{
  /// Bytes that no strategy changes: of all parameters, of the gradients of those that are not frozen, and of the
  /// optimizer state on the device.
  size_t weights = 0, gradients = 0, optimizer = 0;
  /// @}
  std::vector<StrategyMemory> strategies;  ///< in the order of the options, without those that were left out
  /// The place in `strategies` of the fastest that fits, of the first where nothing was timed; none: not one fits.
  std::optional<size_t> best() const;
};
/// A table with a line per strategy, in MiB and milliseconds, and advice.
std::ostream& operator<<(std::ostream& out, const MemoryReport& report);

/// What `memory_report` compares, and how long it times.
struct MemoryReportOptions {
  /// As `parse_strategy` takes them; `auto` is an Error, as it is a plan for one budget.
  std::vector<std::string> strategies{"none", "selective", "every:2", "sqrt", "full"};
  int rounds = 3;  ///< of timed steps, in which the strategies take turns; 0: nothing is timed
};

/// Measures small steps with each strategy, then steps of `rows` where these fit. Strategies that need more blocks than there
/// are, are left out. The model is as before: its weights, buffers, generators and setting; its gradients are dropped, and the
/// allocator's peaks begin anew. Error naming a strategy that there is not; OutOfMemory if not even the smallest step fits.
MemoryReport memory_report(const TrainingStepCase& step, const MemoryReportOptions& options = {});

/// The largest batch whose step is predicted to stay within nine tenths of the budget, in steps of `smallest`; 0: none does.
int64_t max_batch(const TrainingStepCase& step, const RecomputeStrategy& strategy = {});

}  // namespace reprise::nn

namespace reprise {
using nn::max_batch;
using nn::memory_report;
using nn::MemoryReport;
using nn::MemoryReportOptions;
using nn::StrategyMemory;
using nn::TrainingStepCase;
}  // namespace reprise
