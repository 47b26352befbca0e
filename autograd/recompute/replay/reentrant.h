// The reentrant checkpoint: one node in the graph, which plays its region and runs a backward pass of its
// own.
#pragma once

#include "reprise/autograd/recompute/checkpoint.h"

namespace reprise::recompute {

/// A call with recording on.
TensorList run_reentrant(const std::shared_ptr<Body>& body, const TensorList& inputs,
                         const std::vector<std::string>& paths, const CheckpointOptions& options);

}  // namespace reprise::recompute
