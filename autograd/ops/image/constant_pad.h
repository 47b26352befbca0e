// Borders of one value around a tensor of any rank. Those of images, mirrored ones among them: `pad` of autograd/ops.h.
#pragma once

#include <vector>

#include "reprise/core/tensor.h"

namespace reprise {

/// x with borders of `value`, which are listed from the last dimension backwards: {left, right, top, bottom, ...}. A negative one cuts
/// that many elements off. Any dtype; always a copy. Error on an odd number of borders, on more than x has dimensions, and where
/// a dimension is cut by more than it has.
Tensor constant_pad(const Tensor& x, const std::vector<int64_t>& borders, double value = 0);

}  // namespace reprise
