// The gradient for the weight of a convolution, added to one that is there.
#pragma once

#include "reprise/kernels/conv/conv2d.h"

namespace reprise::kernels {

/// dweight, of f32 or f64, plus what `conv2d_dweight` writes: in the bits of that and an addition. On CUDA, where cuDNN has no sum for it, that
/// of cuDNN is made in scratch memory first.
extern Kernel<void(const Conv2dDweightArguments& arguments)> conv2d_add_dweight;

}  // namespace reprise::kernels
