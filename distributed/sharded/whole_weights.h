// WholeWeights: weights that ranks share, whole on all of them for a time.
#pragma once

#include "reprise/distributed/data_parallel/data_parallel.h"

namespace reprise::distributed {

/// While it lives, each rank has all weights (stage 3 of ShardedAdamW; else they are whole anyway): to be read, saved, evaluated
/// on one rank alone, or loaded. What all ranks write to them alike stays. All ranks make it, and update nothing within.
///
///   rp::distributed::WholeWeights whole(parallel);
///   if (group->rank() == 0) rp::save("model.safetensors", model);
class WholeWeights {
 public:
  /// Gathers the weights that ranks share. `parallel` outlives it.
  explicit WholeWeights(DataParallel& parallel);
  ~WholeWeights();
  WholeWeights(const WholeWeights&) = delete;
  /// They stay whole for good: training is over.
  void keep() { is_kept_ = true; }

 private:
  DataParallel& parallel_;
  bool is_kept_ = false;
};

}  // namespace reprise::distributed
