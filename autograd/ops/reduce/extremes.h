// Maxima and minima in another dtype than that of the numbers that they are of.
#pragma once

#include "reprise/core/tensor.h"

namespace reprise::autograd {

/// `max` and `min` of numbers of 16 bits in f32, if `dtype` is that, so that their gradient is rounded once; else `dtype` is that of x.
Tensor max_in(DType dtype, const Tensor& x, const Dims& dims, bool keep_dims);
Tensor min_in(DType dtype, const Tensor& x, const Dims& dims, bool keep_dims);

}  // namespace reprise::autograd
