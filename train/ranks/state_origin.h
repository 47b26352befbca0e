// How ranks made the optimizer's state of which each has a part, as the metadata of its file in a checkpoint says it. A run goes on
// at any count and stage; what differs is told.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "reprise/distributed/data_parallel/data_parallel.h"

namespace reprise::train {

/// "zero": ZeRO's stage; "micro_batches": of a step, over all ranks; "reduce": how gradients are added, "tree" or "fast".
std::map<std::string, std::string> state_origin(optim::Optimizer& optimizer,
                                                const distributed::DataParallel& parallel,
                                                int64_t micro_batches);

/// "2 ranks at ZeRO stage 1, 8 micro-batches per step, reduce tree", of such metadata with "ranks" too; empty of none.
std::string in_words(const std::map<std::string, std::string>& origin);

}  // namespace reprise::train
