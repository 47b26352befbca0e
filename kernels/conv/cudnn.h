// Convolution by cuDNN, where the build has it: cudnn.cpp or cudnn_none.cpp.
#pragma once

#include "reprise/kernels/conv/conv2d.h"

namespace reprise::kernels::vendor {

/// Arguments as in conv2d.h, checked and not empty. False, and nothing done, if cuDNN has no deterministic
/// algorithm for the convolution that keeps sums in f32.
bool cudnn_conv2d(const Stream& stream, const Conv2dArguments& arguments);
bool cudnn_conv2d_dx(const Stream& stream, const Conv2dDxArguments& arguments);
bool cudnn_conv2d_dweight(const Stream& stream, const Conv2dDweightArguments& arguments);

}  // namespace reprise::kernels::vendor
