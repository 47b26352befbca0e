// The unbiased variance. The biased one is `variance` of autograd/ops.h, the square root of this one `stddev` there.
#pragma once

#include "reprise/core/tensor.h"

namespace reprise {

/// sum (x - mean)^2 / (n - correction) over `dims` (empty: all), of a floating dtype; correction 1, PyTorch's default, is the unbiased
/// variance, 0 is `variance`. NaN of no numbers, and of one with correction 1. (PyTorch: torch.var.)
Tensor var(const Tensor& x, const Dims& dims = {}, int64_t correction = 1, bool keep_dims = false);

}  // namespace reprise
