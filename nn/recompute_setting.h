// RecomputeSetting: which blocks of a model run as checkpointed regions in training, by a strategy or a plan.
#pragma once

#include "reprise/autograd/recompute/planner/strategy.h"

namespace reprise::nn {

/// Base of what has blocks: BlockStack, whose blocks are a chain, and UNet. No bit depends on the setting.
class RecomputeSetting {
 public:
  virtual ~RecomputeSetting() = default;

  /// How the blocks that are there now run from here on. Error if the strategy needs more of them, or the
  /// plan is not for as many. `auto` is for chains (see BlockStack); else it is an Error.
  void set_recompute(const RecomputeStrategy& strategy);
  void set_recompute(recompute::Plan plan, const CheckpointOptions& options = {});
  const RecomputeStrategy& strategy() const { return strategy_; }  ///< `none` if a plan was set
  recompute::Plan recompute_plan() const;

  virtual int64_t size() const = 0;  ///< blocks

 protected:
  enum class Auto : uint8_t { refused, planned_later };
  RecomputeSetting(const char* owner, Auto automatic) : owner_(owner), auto_(automatic) {}

  const CheckpointOptions& checkpoint_options() const { return checkpoint_options_; }
  /// The plan that `auto` came to, for inputs of up to so many elements.
  void set_planned(const recompute::Plan& plan, size_t budget_bytes, int64_t input_numel);
  int64_t planned_numel() const { return planned_numel_; }  ///< 0: `auto` has no plan yet

 private:
  void check_heeded(const RecomputeStrategy& strategy) const;

  const char* owner_;  // for messages
  Auto auto_;
  RecomputeStrategy strategy_;
  recompute::Plan plan_;  // empty: no regions, however many blocks there are
  CheckpointOptions checkpoint_options_;
  int64_t planned_numel_ = 0;
};

}  // namespace reprise::nn
