// The order of the numbers along the last dimension.
#pragma once

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

/// y[..., j] = the place i of the j-th smallest number of x[..., :], or largest if `descending`; equal numbers stay in their
/// order, -0 and 0 are equal, NaN are largest and equal. y is i64 of x's shape. On CUDA less than 2^32 elements; workspace: 16
/// bytes per element.
extern Kernel<void(const TensorView& x, bool descending, const TensorView& y)> argsort;

/// Error unless y is i64 and has the shape of x, which has a dimension.
inline void check_argsort(const TensorView& x, const TensorView& y) {
  check(x.rank() >= 1, "argsort: needs at least one dimension");
  check(x.shape == y.shape, "argsort: the places have shape ", y.shape, ", x has ", x.shape);
  check(y.dtype == DType::i64, "argsort: writes i64, the output is ", y.dtype);
}

}  // namespace reprise::kernels
