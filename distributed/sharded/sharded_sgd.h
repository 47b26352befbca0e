// ShardedSgd: Sgd whose velocity, gradients and weights the ranks share (ZeRO, stages 1 to 3: Rajbhandari et al. 2020), with the
// bits of Sgd on each rank.
#pragma once

#include "reprise/distributed/sharded/sharded.h"

namespace reprise::distributed {

/// What ranks share (Sharing), and the options of Sgd.
struct ShardedSgdOptions {
  int stage = 1;            ///< of ZeRO
  optim::SgdOptions sgd{};  ///< without lr and weight decay, which groups bring: Error if they are given
  std::vector<nn::Layer*> blocks{};  ///< of stage 3; none: numbered layers, such as "h.0"
};

/// See Sharded.
class ShardedSgd final : public Sharded<optim::Sgd> {
 public:
  /// `parallel` outlives it. Error unless it trains all parameters of the groups, or if there is no such stage.
  ShardedSgd(DataParallel& parallel, std::vector<optim::ParameterGroup> groups,
             const ShardedSgdOptions& options = {})
      : Sharded("ShardedSgd", parallel, std::move(groups), options.sgd, {options.stage, options.blocks},
                options.sgd.master != optim::Master::stochastic) {}
};

}  // namespace reprise::distributed
