// Root-mean-square normalisation (Zhang and Sennrich 2019) over the last dimension:
//   y = x * rstd * gamma,   rstd = 1 / sqrt(mean(x^2) + eps)
// Without mean, beta and dbeta.
#pragma once

#include "reprise/kernels/norm/norm.h"

namespace reprise::kernels {

extern Kernel<void(const NormArguments& arguments)> rms_norm;
extern Kernel<void(const NormBackwardArguments& arguments)> rms_norm_backward;

}  // namespace reprise::kernels
