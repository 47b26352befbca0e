// Whether what is to be saved is finite: a checkpoint of NaN would push the last good one out.
#pragma once

#include <optional>
#include <string>

#include "reprise/train/checkpoint.h"

namespace reprise::train {

/// The first tensor of a checkpoint, or of this rank's elements of what ranks share, that holds a NaN or an infinity: "wte.weight", "optimizer state
/// 0.first_moment" or "the average of wte.weight". Reads everything once.
std::optional<std::string> first_bad_tensor(const Checkpoint& checkpoint);

}  // namespace reprise::train
