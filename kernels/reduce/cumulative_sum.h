// Sums of all that come before, along the last dimension.
#pragma once

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

/// y[..., j] = sum of x[..., i] over i <= j, or over i >= j if `reverse`. y has x's shape; its dtype is x's, or f32 of 16 bits, i64 for
/// integers and bool, which wrap. Sums of f32 and half types are carried in f64 and rounded once: on CUDA from tile to tile, within which
/// they are f32.
extern Kernel<void(const TensorView& x, bool reverse, const TensorView& y)> cumulative_sum;

/// Error unless y fits.
inline void check_cumulative_sum(const TensorView& x, const TensorView& y) {
  check(x.rank() >= 1, "cumsum: needs at least one dimension");
  check(x.shape == y.shape, "cumsum: the sums have shape ", y.shape, ", x has ", x.shape);
  const DType dtype = is_floating(x.dtype) ? x.dtype : DType::i64;
  const bool widens = y.dtype == DType::f32 && (x.dtype == DType::bf16 || x.dtype == DType::f16);
  check(y.dtype == dtype || widens, "cumsum: of ", x.dtype, " gives ", dtype, ", the output is ", y.dtype);
}

}  // namespace reprise::kernels
