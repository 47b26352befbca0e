// What all ranks of a run should have with the same bits, and a checksum by which two runs are compared by eye.
#pragma once

#include "reprise/distributed/process_group.h"
#include "reprise/distributed/sharded/shared_tensors.h"
#include "reprise/nn/module.h"
#include "reprise/nn/optim/grad_scaler.h"
#include "reprise/nn/optim/optimizer.h"

namespace reprise::train {

/// Steps between two comparisons of ranks, where no save comes between.
constexpr int64_t compare_ranks_every = 1000;

/// CRC-32C of what model.safetensors holds: parameters and buffers, in the order of the model. The same on any number of ranks.
/// `whole`: of those that are hollow, as ranks share them.
uint32_t weights_crc(const nn::Module& model, const distributed::WholeOf& whole);

/// Whether ranks share some of its state: each has a part alone.
bool is_shared(optim::Optimizer& optimizer);

/// The state of an optimizer that each rank has.
nn::NamedTensors whole_state(const optim::Optimizer& optimizer);

/// Compares parameters and buffers of the model, but for hollow ones, state of the optimizer and, if there is one, of the loss scale. All ranks
/// call it. DistributedError of kind `mismatch` naming the first tensor that differs, and the ranks.
void check_same_state(distributed::ProcessGroup& group, int64_t step, const nn::Module& model,
                      const nn::NamedTensors& optimizer_state, const optim::GradScaler* scaler);

}  // namespace reprise::train
