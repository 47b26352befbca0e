// Layers by operations: where memory is held and where time goes.
#pragma once

#include "reprise/apps/recompute/profiled_step.h"

namespace reprise::apps::recompute {

/// An HTML section with two tables: the bytes that each layer's operations save and the seconds they take in
/// `plain`, a step without recompute; beside them what the layer's regions save and cost in `with`.
std::string heat_map_section(const std::vector<SavedCell>& saved, const ProfiledStep& plain,
                             const ProfiledStep& with);

}  // namespace reprise::apps::recompute
