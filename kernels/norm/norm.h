// The arguments of layer norm and RMS norm, on any device, and the checks of them. RMS norm is the case
// without mean, beta and dbeta.
#pragma once

#include <array>

#include "reprise/kernels/kernel.h"
#include "reprise/kernels/row_checks.h"

namespace reprise::kernels {

// Rows, which are all but parameters and statistics, are f64, or f32, bf16 and f16, each its own. Arithmetic is in f32
// (f64 for f64), and a row in 16 bits is what it would be in f32, rounded once.

/// y = norm(x); with a residual, sum = x + residual and y = norm(sum), in one pass over the rows: the
/// statistics are those of `sum` as it is stored. sum may be x or residual.
struct NormArguments {
  TensorView x;                ///< (..., C), any strides but 1 in the last dimension, as y and sum
  TensorView residual{};       ///< like x, optional; together with `sum`
  TensorView gamma{}, beta{};  ///< (C), each optional
  double eps = 0;
  TensorView sum{}, y;
  TensorView mean{}, rstd{};  ///< f32 (f64 for f64), (...), contiguous, each optional
};
/// Error unless the arguments fit; the op that they are of: with a residual, add_layer_norm or add_rms_norm.
const char* check_norm(const NormArguments& views, bool centred);
inline std::array<const TensorView*, 4> rows_of_norm(const NormArguments& v) {
  return {&v.x, &v.residual, &v.sum, &v.y};
}

/// The gradients of y for what was normalised and for the parameters, which are overwritten; each output is
/// optional. dx may be dy. With an addend, dx = addend + the gradient for x, which is rounded to dx's dtype before: the bits of an
/// addition after it, without the pass over both.
struct NormBackwardArguments {
  TensorView dy, x;
  TensorView gamma{};
  TensorView mean{}, rstd;
  TensorView dx{};               ///< like x
  TensorView addend{};           ///< like dx and of its dtype, optional, and only with it; may be dx
  TensorView dgamma{}, dbeta{};  ///< (C)
};
void check_norm_backward(const char* op, const NormBackwardArguments& views, bool centred);
inline std::array<const TensorView*, 4> rows_of_norm(const NormBackwardArguments& v) {
  return {&v.x, &v.dy, &v.dx, &v.addend};
}

}  // namespace reprise::kernels
