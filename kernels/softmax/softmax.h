// Softmax and log-softmax over the last dimension, shifted by the row's maximum.
#pragma once

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

// Rows are f64, or f32, bf16 and f16, each its own: a row in 16 bits is what it would be in f32, rounded once.

/// y = exp(x - max) / sum. x, y (..., C), stride 1 in the last dimension; y may be x.
extern Kernel<void(const TensorView& x, const TensorView& y)> softmax;

/// dx = y * (dy - sum(dy * y)).
extern Kernel<void(const TensorView& dy, const TensorView& y, const TensorView& dx)> softmax_backward;

/// y = x - max - log(sum(exp(x - max))).
extern Kernel<void(const TensorView& x, const TensorView& y)> log_softmax;

/// dx = dy - exp(y) * sum(dy).
extern Kernel<void(const TensorView& dy, const TensorView& y, const TensorView& dx)> log_softmax_backward;

}  // namespace reprise::kernels
