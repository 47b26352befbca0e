// Running statistics over ranks: the batches of all micro-batches, folded in the micro-batches' order.
#pragma once

#include <vector>

#include "reprise/autograd/ops/norm/batch_statistics.h"
#include "reprise/distributed/process_group.h"
#include "reprise/nn/module.h"

namespace reprise::distributed {

/// Updates the running statistics among `buffers` by the batches of all ranks, those of rank 0 first: what one process does
/// that has computed them all in this order, to the bit. `mine` are this rank's. All ranks call it with the same buffers.
/// Error where a batch norm's statistics are not among them.
void fold_statistics(ProcessGroup& group, const nn::NamedTensors& buffers,
                     const std::vector<autograd::BatchStatistics>& mine);

}  // namespace reprise::distributed
