// The gradient of a convolution's weight.
#pragma once

#include "reprise/autograd/node.h"
#include "reprise/kernels/conv/conv2d.h"

namespace reprise::autograd {

/// dW of `like`'s shape, in `dtype`, from dy and x of the convolution. At a leaf of f32 or f64 that has one from earlier passes, it is added to that as
/// it is made, and that is the result: the bits of the sum of both.
Tensor conv_weight_gradient(const Tensor& dy, const Tensor& x, const kernels::Conv2dOptions& options,
                            const Tensor& like, DType dtype, const Edge& to);

}  // namespace reprise::autograd
