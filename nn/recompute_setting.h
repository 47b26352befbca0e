// RecomputeSetting: which blocks of a model run as checkpointed regions in training, by a strategy or a plan.
#pragma once

#include "reprise/autograd/recompute/planner/planner.h"
#include "reprise/autograd/recompute/planner/profile.h"
#include "reprise/autograd/recompute/planner/strategy.h"
#include "reprise/nn/module.h"

namespace reprise::nn {

/// Base of what has blocks: BlockStack, and UNet with its stages. No bit depends on the setting.
///
/// A plan of `auto` is made in the first training step, and again if one has a larger input.
class RecomputeSetting {
 public:
  virtual ~RecomputeSetting() = default;

  /// How the blocks that are there now run from here on. Error if the strategy needs more of them, or the
  /// plan is not for as many.
  void set_recompute(const RecomputeStrategy& strategy);
  /// The same by a plan, whose regions have these options.
  void set_recompute(recompute::Plan plan, const CheckpointOptions& options = {});
  /// Another plan in the place of the one that `auto` has made, such as another rank's; the strategy stays. Error if it is not for as
  /// many blocks.
  void replace_plan(recompute::Plan plan);
  const RecomputeStrategy& strategy() const { return strategy_; }  ///< `none` if a plan was set
  recompute::Plan recompute_plan() const;  ///< in force, for the blocks that there are

  virtual int64_t size() const = 0;  ///< blocks

  /// What a training step on `input` costs: the blocks as a chain, measured on the device. Changes nothing
  /// (see profile.h).
  recompute::Chain profile(const Tensor& input, const recompute::ProfileOptions& options = {}) {
    return measured(input, options);
  }
  /// Measures such a step and sets the fastest plan with which the allocator holds at most `budget_bytes` at
  /// its peak: weights, gradients, optimizer state, data and all. What is there before the step is counted as
  /// it is, so let the optimizer make its state first. Error stating the minimum if there is no such plan.
  recompute::Planned plan(const Tensor& input, size_t budget_bytes,
                          const recompute::ProfileOptions& options = {});
  /// The same for the budget of an automatic strategy, which may be a percentage.
  recompute::Planned plan(const Tensor& input, const RecomputeStrategy& strategy,
                          const recompute::ProfileOptions& options = {});

 protected:
  /// `owner`: the class, for messages.
  explicit RecomputeSetting(const char* owner) : owner_(owner) {}

  /// Of the regions.
  const CheckpointOptions& checkpoint_options() const { return checkpoint_options_; }
  /// Before a training step on `input`: makes the plan where the strategy is `auto`. `model`: whose parameters the step
  /// updates.
  void plan_if_automatic(const Tensor& input, const Module& model);

 private:
  virtual recompute::Chain measured(const Tensor& input, const recompute::ProfileOptions& options) = 0;
  void check_heeded(const RecomputeStrategy& strategy) const;

  const char* owner_;  // for messages
  RecomputeStrategy strategy_;
  recompute::Plan plan_;  // empty: no regions, however many blocks there are
  CheckpointOptions checkpoint_options_;
  int64_t planned_numel_ = 0;  // the largest input that `auto` has planned for; 0: none yet
};

}  // namespace reprise::nn
