// ShardedAdamW: AdamW whose state, gradients and weights the ranks share (ZeRO, stages 1 to 3: Rajbhandari et al. 2020), with
// the bits of AdamW on each rank.
//
//   rp::distributed::DataParallel parallel(model, *group);
//   rp::distributed::ShardedAdamW optimizer(parallel, rp::optim::decay_matrices(model, 1e-3, 0.1), {.stage = 2});
//   for (int64_t g : parallel.share(8)) parallel.backward(loss_of(step, g), g);
//   optimizer.step(rp::optim::clip_scale(optimizer.grad_norm(), 1.0));
#pragma once

#include "reprise/distributed/sharded/sharded.h"

namespace reprise::distributed {

/// What ranks share (Sharing), and the options of AdamW.
struct ShardedAdamWOptions {
  int stage = 1;                ///< of ZeRO
  optim::AdamWOptions adamw{};  ///< without lr and weight decay, which groups bring: Error if they are given
  std::vector<nn::Layer*> blocks{};  ///< of stage 3; none: numbered layers, such as "h.0"
};

/// See Sharded.
class ShardedAdamW final : public Sharded<optim::AdamW> {
 public:
  /// `parallel` outlives it. Error unless it trains all parameters of the groups, or if there is no such stage.
  ShardedAdamW(DataParallel& parallel, std::vector<optim::ParameterGroup> groups,
               const ShardedAdamWOptions& options = {})
      : Sharded("ShardedAdamW", parallel, std::move(groups), options.adamw, {options.stage, options.blocks},
                options.adamw.master != optim::Master::stochastic) {}
};

}  // namespace reprise::distributed
