// Averages of weights of which each rank follows its shards, whole on all ranks.
#pragma once

#include "reprise/distributed/data_parallel/data_parallel.h"
#include "reprise/nn/optim/ema.h"

namespace reprise::distributed {

/// Gives all ranks the averages of the trained parameters as those have them that follow them, before they are looked at or
/// saved. Nothing is sent where each rank follows all. All ranks call it.
void gather_averages(DataParallel& parallel, const optim::Ema& ema);

}  // namespace reprise::distributed
