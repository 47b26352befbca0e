// The variance for what is made of it, of numbers that `reading_wide` gives: of 16 bits it is f32.
#pragma once

#include "reprise/core/tensor.h"

namespace reprise::autograd {

/// `variance`; errors name `op`.
Tensor wide_variance(const char* op, const Tensor& x, const Dims& dims, bool keep_dims);
/// `var`, in the same way.
Tensor wide_var(const char* op, const Tensor& x, const Dims& dims, int64_t correction, bool keep_dims);

}  // namespace reprise::autograd
