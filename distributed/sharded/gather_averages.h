// Averages of weights of which each rank follows its shards, whole on all ranks.
#pragma once

#include "reprise/distributed/data_parallel/data_parallel.h"
#include "reprise/nn/optim/ema.h"

namespace reprise::distributed {

/// The averages of which each rank has a part, whole, to be looked at; the function holds them, of the dtypes of what they
/// follow. Nothing is sent where there are none. All ranks call it.
///
///   rp::distributed::WholeWeights whole(parallel);
///   rp::optim::Ema::Scope averages(ema, rp::distributed::whole_averages(parallel, ema));
optim::Ema::Whole whole_averages(DataParallel& parallel, const optim::Ema& ema);
/// The same without those of weights that are scattered (ZeRO, stage 3), for which the function gives undefined ones.
optim::Ema::Whole averages_around_blocks(DataParallel& parallel, const optim::Ema& ema);

/// Where weights are scattered (ZeRO, stage 3): so are their averages that live elsewhere in the model, such as the blocks of a target
/// encoder, from now on. They are gathered as their layers are called. Nothing changes elsewhere. All ranks call it once, between two
/// steps, after Ema::follow_masters.
void scatter_averages(DataParallel& parallel, optim::Ema& ema);

/// Averages that live elsewhere, such as the weights of a target encoder: gives all ranks those as they have moved on the ranks
/// that follow them, but for those that are scattered. To be called after each update. Nothing is sent where each rank follows all. All ranks call it.
void gather_averages(DataParallel& parallel, const optim::Ema& ema);

}  // namespace reprise::distributed
