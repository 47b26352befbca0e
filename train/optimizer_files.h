// The optimizer's state in a checkpoint: one file, or one of each rank where ranks share it.
#pragma once

#include <map>
#include <string>

#include "reprise/nn/module.h"

namespace reprise::train {

/// Writes `state` into `folder`: of one rank optimizer.safetensors; of several, as `rank` has it of Optimizer::own_state_dict,
/// optimizer-00002-of-00004.safetensors, whose metadata has its two numbers, "part" and "ranks", and `origin`. What is not shared is
/// in the first. Returns the file's name.
std::string write_optimizer(const std::string& folder, const nn::NamedTensors& state, int rank, int ranks,
                            const std::map<std::string, std::string>& origin = {});

/// The state in `folder`, on the CPU: whole, or of each state of which `own` (an Optimizer::own_state_dict) has a part, that
/// part, under the same names. Error naming the file or the state that is not there, or not whole, or the file whose metadata
/// contradicts its name or the first file's.
nn::NamedTensors read_optimizer(const std::string& folder, const nn::NamedTensors& own = {});

/// What the metadata of the files in `folder` says: "ranks", and the `origin` that they were written with. Empty for one file, and for
/// files that have none.
std::map<std::string, std::string> optimizer_origin(const std::string& folder);

}  // namespace reprise::train
