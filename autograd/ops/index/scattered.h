// Scatters along the last dimension: the transpose of gather, and the one that sets.
#pragma once

#include "reprise/core/tensor.h"

namespace reprise::autograd {

/// Zeros of `shape`, to which y[..., index[..., i]] += x[..., i], in the order of i. Differentiable in x.
Tensor scattered(const Tensor& x, const Tensor& index, const Shape& shape);

/// x, then y[..., index[..., i]] = source[..., i]; of equal places in a row the last i stays. Differentiable in x and the source.
Tensor scattered_into(const Tensor& x, const Tensor& index, const Tensor& source);

}  // namespace reprise::autograd
