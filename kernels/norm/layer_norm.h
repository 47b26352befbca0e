// Layer normalisation (Ba et al. 2016) over the last dimension:
//   y = (x - mean) * rstd * gamma + beta,   rstd = 1 / sqrt(variance + eps)
// Forward reads x and writes y once: 2 * rows * width elements. Backward reads dy and x and writes dx.
#pragma once

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

/// x, y (..., C), any strides but 1 in the last dimension; gamma, beta (C), each optional; mean, rstd f32
/// (f64 for f64), (...), contiguous, each optional.
extern Kernel<void(const TensorView& x, const TensorView& gamma, const TensorView& beta, double eps,
                   const TensorView& y, const TensorView& mean, const TensorView& rstd)>
    layer_norm;

/// sum = x + residual, y = layer_norm(sum), both in one pass over the rows: the statistics are those of `sum`
/// as it is stored. sum may be x or residual; its layout and theirs as for x.
extern Kernel<void(const TensorView& x, const TensorView& residual, const TensorView& gamma,
                   const TensorView& beta, double eps, const TensorView& sum, const TensorView& y,
                   const TensorView& mean, const TensorView& rstd)>
    add_layer_norm;

/// dx = gradient of x. dgamma, dbeta (C) are overwritten; each output is optional. dx may be dy.
extern Kernel<void(const TensorView& dy, const TensorView& x, const TensorView& gamma, const TensorView& mean,
                   const TensorView& rstd, const TensorView& dx, const TensorView& dgamma,
                   const TensorView& dbeta)>
    layer_norm_backward;

}  // namespace reprise::kernels
