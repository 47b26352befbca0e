// Gather and scatter along the last dimension.
#pragma once

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

/// y[..., i] = x[..., index[..., i]]. Leading dimensions agree; the index is i64 or i32. Error on an index
/// out of range, with its value: at once on the CPU; on CUDA that element of y is zero, and the Error is
/// thrown where the host next waits for the device.
extern Kernel<void(const TensorView& x, const TensorView& index, const TensorView& y)> gather;

/// y[..., index[..., i]] += x[..., i], in the order of i, rounded to y's dtype each time. Error on an index
/// out of range as in gather; on CUDA that element of x is left out.
extern Kernel<void(const TensorView& x, const TensorView& index, const TensorView& y)> scatter_add;

/// y = i, row-major over the view.
extern Kernel<void(const TensorView& y)> arange;

}  // namespace reprise::kernels
