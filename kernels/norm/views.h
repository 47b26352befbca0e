// The views that layer norm and RMS norm take, on any device, and the checks of them. RMS norm is the case
// without mean, beta and dbeta.
#pragma once

#include "reprise/core/view.h"

namespace reprise::kernels {

/// s = x + residual (or x alone), y = norm(s). All but x and y are optional; residual and sum go together.
struct NormViews {
  const TensorView &x, &residual, &gamma, &beta, &sum, &y, &mean, &rstd;
};
void check_norm(const char* op, const NormViews& views);

/// dx, dgamma and dbeta are optional, as gamma is. `centred`: mean is needed too.
struct NormBackwardViews {
  const TensorView &dy, &x, &gamma, &mean, &rstd, &dx, &dgamma, &dbeta;
};
void check_norm_backward(const char* op, const NormBackwardViews& views, bool centred);

}  // namespace reprise::kernels
