// Dropout (Srivastava et al. 2014):  y = keep ? x / (1 - p) : 0.
// Element i (row-major) is kept if its Philox draw (seed, offset, i) is at least p. Backward is the same call
// on dy.
#pragma once

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

/// p in [0, 1). x and y have one shape and dtype; y may be x.
extern Kernel<void(const TensorView& x, double p, uint64_t seed, uint64_t offset, const TensorView& y)>
    dropout;

}  // namespace reprise::kernels
