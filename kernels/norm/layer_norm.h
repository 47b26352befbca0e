// Layer normalisation (Ba et al. 2016) over the last dimension:
//   y = (x - mean) * rstd * gamma + beta,   rstd = 1 / sqrt(variance + eps)
// Forward reads x and writes y once: 2 * rows * width elements. Backward reads dy and x and writes dx.
#pragma once

#include "reprise/kernels/norm/norm.h"

namespace reprise::kernels {

extern Kernel<void(const NormArguments& arguments)> layer_norm;
extern Kernel<void(const NormBackwardArguments& arguments)> layer_norm_backward;

}  // namespace reprise::kernels
