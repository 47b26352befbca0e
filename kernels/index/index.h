// Gather and scatter along the last dimension, one-hot codes, and arange.
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

/// y[..., index[..., i]] = x[..., i]; of equal places in a row the last i stays. Error on an index out of range as in scatter_add.
extern Kernel<void(const TensorView& x, const TensorView& index, const TensorView& y)> scatter;

/// y[..., c] = 1 where c == index[...], else 0: y has one dimension more. The index is i64 or i32. Error on
/// an index outside y's last dimension as in gather; on CUDA that row of y is zero.
extern Kernel<void(const TensorView& index, const TensorView& y)> one_hot;

/// y = i, row-major over the view.
extern Kernel<void(const TensorView& y)> arange;

}  // namespace reprise::kernels
