// Other arrangements of a tensor's numbers than those of autograd/ops.h.
#pragma once

#include "reprise/core/tensor.h"

namespace reprise {

/// A view with each dimension from[i] at place to[i], and the others in their order. Error where there are more of one than of the
/// other, and on one that is listed twice.
Tensor movedim(const Tensor& x, const Dims& from, const Dims& to);

/// The slices of `dim`, as views without it. (torch.unbind)
TensorList unbind(const Tensor& x, int64_t dim = 0);

/// The numbers with place j = i + offset of `second` beside place i of `first`, as a last dimension: a copy. (torch.diagonal, which
/// gives a view.) Error unless the two are different dimensions.
Tensor diagonal(const Tensor& x, int64_t offset = 0, int64_t first = 0, int64_t second = 1);

}  // namespace reprise
