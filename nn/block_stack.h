// Sequential whose layers run as checkpointed regions.
#pragma once

#include "reprise/autograd/recompute/planner/strategy.h"
#include "reprise/nn/layers.h"

namespace reprise::nn {

/// Layers one after the other, as `strategy` says: rp::parse_strategy("every:3"). Only in training mode with
/// recording on; else there are no regions and it costs nothing. It may go before backward.
class CheckpointedSequential : public Sequential {
 public:
  /// `options` replaces what the strategy implies.
  explicit CheckpointedSequential(RecomputeStrategy strategy);
  CheckpointedSequential(RecomputeStrategy strategy, const CheckpointOptions& options);
  /// Error if there are fewer layers than the strategy needs.
  Tensor forward(const Tensor& x) override;

 private:
  RecomputeStrategy strategy_;
  CheckpointOptions options_;
};

/// x through the layers in segments, in any mode: see recompute::plan_segments. `layers` may go before
/// backward.
Tensor checkpoint_sequential(Sequential& layers, int64_t segments, const Tensor& x,
                             const CheckpointOptions& options = {}, LastSegment last = LastSegment::plain);

}  // namespace reprise::nn

namespace reprise {
using nn::checkpoint_sequential;
}
