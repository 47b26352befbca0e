// Weights of which each rank has updated its shards, whole again on all ranks.
#pragma once

#include <vector>

#include "reprise/distributed/data_parallel/data_parallel.h"

namespace reprise::distributed {

/// Gives all ranks each shard of the model's trained parameters as its owner has it, bucket by bucket. Versions stay: what has
/// updated the shards has told so of the whole parameters. Those that are scattered stay so.
void gather_weights(DataParallel& parallel);

/// Bytes that it takes meanwhile: of the buffers that are there at once, when they are most.
std::vector<size_t> gather_bytes(const DataParallel& parallel);

}  // namespace reprise::distributed
