// Norms of any order.
#pragma once

#include "reprise/core/tensor.h"

namespace reprise {

/// (sum |x|^order)^(1 / order) over `dims` (empty: all), of a floating dtype; of order 0 the number of elements that are not 0, of an
/// infinite one the largest |x|, or the smallest for -inf. NaN stays NaN, but of order 0, where it counts. The gradient is 0 where
/// an element is 0, or the norm is; equal extremes share it. Error of an infinite or negative order of no elements.
Tensor vector_norm(const Tensor& x, double order = 2, const Dims& dims = {}, bool keep_dims = false);

}  // namespace reprise
