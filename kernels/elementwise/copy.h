// Copies and fills: any strides on both sides, any pair of dtypes (a copy casts).
#pragma once

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

/// y = x, elementwise and cast. Same shape; y has no two elements at one address.
extern Kernel<void(const TensorView& x, const TensorView& y)> copy;

/// y = value, cast.
extern Kernel<void(const TensorView& y, double value)> fill;

}  // namespace reprise::kernels
