// The optimizer's state in a checkpoint: one file, or one of each rank where ranks share it.
#pragma once

#include <string>

#include "reprise/nn/module.h"

namespace reprise::train {

/// Writes `state` into `folder`: of one rank optimizer.safetensors; of several, as `rank` has it of Optimizer::own_state_dict,
/// optimizer-00002-of-00004.safetensors. What is not shared is in the first. Returns the file's name.
std::string write_optimizer(const std::string& folder, const nn::NamedTensors& state, int rank, int ranks);

/// The state in `folder`, on the CPU: whole, or of each state of which `own` (an Optimizer::own_state_dict) has a part, that
/// part, under the same names. Error naming the file or the state that is not there, or not whole.
nn::NamedTensors read_optimizer(const std::string& folder, const nn::NamedTensors& own = {});

}  // namespace reprise::train
