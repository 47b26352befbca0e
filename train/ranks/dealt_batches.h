// Batches of held-out data, which the ranks share: their sums have the same bits on any number of ranks.
#pragma once

#include <functional>
#include <vector>

#include "reprise/distributed/data_parallel/data_parallel.h"

namespace reprise::train {

/// What is added of one batch, such as {its rows, the sum of their losses}.
using OfBatch = std::function<std::vector<double>(int64_t batch)>;

/// The sums over batches 0 ... `batches` - 1 of the `numbers` numbers that `of_batch` gives, on all ranks of `parallel`, which call it with
/// the same weights. Within a distributed::EvaluatedWeights, as train makes it, `of_batch` may call the model, once or often or not at
/// all; it makes no calls of the group. Rank r of n is asked for batches r, r + n, ... alone; all add what each batch gave, in the order of the batches.
/// Interrupted on all ranks once a signal has come on any: they look before each n batches. What `of_batch` throws else ends its
/// rank, which is to tell the others, as a training step does.
std::vector<double> sums_of_batches(distributed::DataParallel& parallel, int64_t batches, size_t numbers,
                                    const OfBatch& of_batch);

}  // namespace reprise::train
