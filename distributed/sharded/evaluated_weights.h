// EvaluatedWeights: what ranks read outside of training, where each of them runs what it likes.
#pragma once

#include <optional>

#include "reprise/distributed/data_parallel/data_parallel.h"
#include "reprise/nn/optim/ema.h"

namespace reprise::distributed {

/// While it lives, each rank may run the model without gradients as often as it likes, on what it likes, or not at all. Of weights
/// that ranks share (stage 3 of ShardedAdamW) a block's are gathered as any rank calls it, on all of them, and freed behind: no rank has
/// room for more than its part and a block or two. Blocks are run as a whole: what is within one is hollow outside of its call.
/// Elsewhere the weights are whole anyway.
///
///   rp::distributed::EvaluatedWeights weights(parallel, &ema);  // on all ranks
///   if (group->rank() == 0) look(model);
///   rp::distributed::gather_for_others(parallel);               // on all ranks
class EvaluatedWeights {
 public:
  /// With `ema`, which follows these weights, the model has its averages; both outlive it. All ranks make it, and update nothing within.
  /// Error within a WholeWeights or another of its kind. Before the next call of the group, and before it ends, all ranks call gather_for_others.
  explicit EvaluatedWeights(DataParallel& parallel, const optim::Ema* ema = nullptr);
  ~EvaluatedWeights();
  EvaluatedWeights(const EvaluatedWeights&) = delete;

 private:
  DataParallel& parallel_;
  std::optional<optim::Ema::Scope> averages_{};
};

/// To be called by each rank once it has run what it wants to, within an EvaluatedWeights: gathers what others still run, until all
/// ranks have called it. Nothing is sent where no weights are shared, and elsewhere.
void gather_for_others(DataParallel& parallel);

}  // namespace reprise::distributed
