// Rows times a number each:
//   y_i = factor_i * x_i
// The gradient of a loss, made when the loss was, times the gradient that the loss gets later. That is 1 as a rule, of which
// the host of a GPU knows nothing.
#pragma once

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

/// x (N, V), stride 1 in the last dimension; factors (N) f32 (f64 for f64), of any stride, also 0; y of the form and dtype of
/// x, rounded once. y may be x itself: rows whose factor is 1 are then neither read nor written.
extern Kernel<void(const TensorView& x, const TensorView& factors, const TensorView& y)> scale_rows;

/// What any device checks before it launches.
void check_scale_rows(const TensorView& x, const TensorView& factors, const TensorView& y);

}  // namespace reprise::kernels
