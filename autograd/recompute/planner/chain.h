// The cost model of recompute: what a chain of stages costs in time and memory when it is played by a plan.
// Note [What a step holds] in chain.cpp says what is held when; planners and tests use this one model.
#pragma once

#include "reprise/autograd/recompute/planner/plan.h"

namespace reprise::recompute {

/// One stage of a chain, as a rule one layer. Bytes are those of the allocator's blocks; profile_chain
/// measures them.
struct Stage {
  double forward_seconds = 0;   ///< played plainly
  double backward_seconds = 0;  ///< of its backward, without replays
  int64_t saved_bytes = 0;  ///< what the graph keeps when the stage is played plainly, save input and output
  int64_t boundary_bytes = 0;            ///< its output, and the gradient of it
  int64_t workspace_forward_bytes = 0;   ///< played plainly: its peak beyond input, output and saved_bytes
  int64_t workspace_unsaved_bytes = 0;   ///< played in a region's first run: its peak beyond input and output
  int64_t workspace_backward_bytes = 0;  ///< its peak beyond input, saved_bytes and the output's gradient
  int64_t gradient_bytes = 0;            ///< what its backward leaves behind: gradients of parameters
  int64_t held_gradient_bytes = 0;       ///< gradients of parameters that are there all the time
  int64_t kept_bytes = 0;                ///< what its first run makes and keeps: 16-bit values of weights
  int64_t skip_to =
      0;  ///< the stage behind the next one that reads its output too, so that it waits; 0: there is none
  // As the last stage of a replay, which ends with the last tensor that is needed:
  double early_stop_seconds = 0;  ///< what is saved of forward_seconds
  int64_t early_stop_bytes = 0;   ///< and of the peak of forward
};

/// The stages that a plan is for, and what stands around them in a training step.
struct Chain {
  int64_t base_bytes = 0;       ///< held all the time: weights, optimizer state, data
  Stage before{};               ///< makes the chain's input; always played plainly. Alone: its boundary_bytes
  std::vector<Stage> stages{};  ///< in their order
  Stage after{};                ///< from the chain's output to the loss; always played plainly

  int64_t size() const { return int64_t(stages.size()); }  ///< how many stages the plan is for
  /// The bytes between stage i - 1 and stage i.
  int64_t boundary_before(int64_t i) const {
    return i == 0 ? before.boundary_bytes : stages[size_t(i - 1)].boundary_bytes;
  }
  /// What is there of the outputs of the stages [begin, end) when they are done: the last one's, and those that wait for
  /// a stage from `end` on.
  int64_t given_bytes(int64_t begin, int64_t end) const;
  int64_t held_bytes() const;  ///< held all the time by all stages: `held_gradient_bytes` and `kept_bytes`
};

/// What one training step costs: forward and backward.
struct PlanCost {
  int64_t peak_bytes = 0;  ///< held at most, the chain's base_bytes among them
  double seconds = 0;      ///< of the step
};

/// What a step costs when run_plan plays `plan`. Error if the plan does not fit the chain.
PlanCost simulate(const Plan& plan, const Chain& chain);

/// Error if the chain is empty, or a number in it is negative or not finite.
void check_chain(const Chain& chain);

}  // namespace reprise::recompute
