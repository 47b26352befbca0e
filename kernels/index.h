// Gather and scatter along the last dimension.
#pragma once

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

/// y[..., i] = x[..., index[..., i]]. Leading dimensions agree. Error on an index out of range, with its
/// value.
extern Kernel<void(const TensorView& x, const TensorView& index, const TensorView& y)> gather;

/// y[..., index[..., i]] += x[..., i], rows in order.
extern Kernel<void(const TensorView& x, const TensorView& index, const TensorView& y)> scatter_add;

/// y = i, row-major over the view.
extern Kernel<void(const TensorView& y)> arange;

}  // namespace reprise::kernels
