// Functions of a (4, 3) and a (3) tensor that change what they made, for checkpoints.
#pragma once

#include <functional>
#include <vector>

#include "reprise/core/tensor.h"

namespace reprise::testing {

using InPlaceBody = std::function<Tensor(const Tensor& x, const Tensor& w)>;

/// Together they have all operations in place. Some draw from the thread's generator.
const std::vector<InPlaceBody>& in_place_bodies();

}  // namespace reprise::testing
