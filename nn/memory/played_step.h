// PlayedStep: a user's training step as it is measured. What was set of its blocks is set again as it goes.
#pragma once

#include "reprise/nn/memory/memory_report.h"

namespace reprise::nn {

/// What is done at the points of a step that is played; empty: nothing.
struct PlayHooks {
  std::function<void()> begin{};
  std::function<void(const Tensor& loss)> before_backward{};
  std::function<void()> before_update{};
  std::function<void()> end{};
};

/// Plays one.
class PlayedStep {
 public:
  /// Whose the blocks' setting is: this object's, or that of other code, which alone touches it then.
  enum class Blocks : uint8_t { own, others };

  /// Checks the step, makes the optimizer's state, and notes how the blocks run. Error if they run by a plan of their own. `op`: for
  /// messages.
  PlayedStep(const char* op, const TrainingStepCase& step, Blocks blocks = Blocks::own);
  ~PlayedStep();  // gradients are dropped
  PlayedStep(const PlayedStep&) = delete;

  Device device() const { return device_; }  ///< of the model's parameters
  size_t budget() const { return step_.budget ? step_.budget : memory_for_tensors(device_); }
  /// Error within a NoCompute where no budget is given.
  void check_budget() const;

  bool has_blocks() const { return blocks_ != nullptr; }
  const RecomputeStrategy& strategy() const { return own_; }  ///< as they ran before
  /// Whether the model has the blocks that the strategy needs; it may be set then.
  bool has(const RecomputeStrategy& strategy) const;
  void set(const RecomputeStrategy& strategy) const;  ///< of its blocks, if there are any
  /// The plan that `strategy` makes of an automatic one, by a step.
  recompute::Plan planned(const RecomputeStrategy& strategy) const;
  void set(const recompute::Plan& plan) const;  ///< of its blocks, which there are

  /// What such a step takes, for any rows. `sums`: see StepMemoryOptions.
  StepMemory measure(const RecomputeStrategy& strategy, int64_t sums) const;
  StepMemory measure(const RecomputeStrategy& strategy) const { return measure(strategy, step_.sums); }

  /// Seconds of forward and backward, of a step that leaves no trace.
  double play() const;
  /// All of the step; without a trace where it has no `update`.
  void play_parts(const PlayHooks& hooks = {}) const;
  /// The seconds of that, without hooks.
  double time_parts() const;
  /// Forward alone, without a trace, between two hooks.
  void play_forward(const std::function<void()>& begin, const std::function<void()>& end) const;

 private:
  const char* op_;
  const TrainingStepCase& step_;
  RecomputeSetting* blocks_;
  Device device_;
  RecomputeStrategy own_;
};

}  // namespace reprise::nn
