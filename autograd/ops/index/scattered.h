// The transpose of gather.
#pragma once

#include "reprise/core/tensor.h"

namespace reprise::autograd {

/// Zeros of `shape`, to which y[..., index[..., i]] += x[..., i], in the order of i. Differentiable in x.
Tensor scattered(const Tensor& x, const Tensor& index, const Shape& shape);

}  // namespace reprise::autograd
