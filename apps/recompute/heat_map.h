// Layers by operations: where memory is held and where time goes.
#pragma once

#include "reprise/nn/memory/step_profile.h"

namespace reprise::apps::recompute {

/// An HTML section with two tables: the bytes that each layer's operations save and the seconds they take in
/// `plain`, a step without recompute; beside them what the layer's regions save and cost in `with`.
std::string heat_map_section(const std::vector<nn::SavedCell>& saved, const nn::StepProfile& plain,
                             const nn::StepProfile& with);

}  // namespace reprise::apps::recompute
