// Views: what an image becomes several times over, by a pipeline each.
#pragma once

#include <vector>

#include "reprise/data/pipeline.h"

namespace reprise::data {

/// A pipeline for each view; one that is there twice makes two views, each with draws of its own. They must outlive what is
/// given them.
using Views = std::vector<const Pipeline*>;

/// Error naming `op` unless there is a view, all make rows of one shape and normalise alike, and several are neither erased
/// nor mixed.
void check_views(const Views& views, const char* op);

/// What view `view` of a sample draws by: a key of its own, as repeats of the sample have.
Order::Sample sample_of_view(Order::Sample sample, const Views& views, int64_t view);

}  // namespace reprise::data
