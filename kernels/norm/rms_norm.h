// Root-mean-square normalisation (Zhang and Sennrich 2019) over the last dimension:
//   y = x * rstd * gamma,   rstd = 1 / sqrt(mean(x^2) + eps)
#pragma once

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

/// x, y (..., C), stride 1 in the last dimension; gamma (C), optional; rstd f32 (f64 for f64), (...),
/// optional.
extern Kernel<void(const TensorView& x, const TensorView& gamma, double eps, const TensorView& y,
                   const TensorView& rstd)>
    rms_norm;

/// sum = x + residual, y = rms_norm(sum), both in one pass over the rows, as add_layer_norm.
extern Kernel<void(const TensorView& x, const TensorView& residual, const TensorView& gamma, double eps,
                   const TensorView& sum, const TensorView& y, const TensorView& rstd)>
    add_rms_norm;

/// dx = gradient of x; dgamma (C) is overwritten; each is optional. dx may be dy.
extern Kernel<void(const TensorView& dy, const TensorView& x, const TensorView& gamma, const TensorView& rstd,
                   const TensorView& dx, const TensorView& dgamma)>
    rms_norm_backward;

}  // namespace reprise::kernels
