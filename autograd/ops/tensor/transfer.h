// Copies that cross devices, for Tensor::to and Tensor::copy_.
#pragma once

#include "reprise/core/tensor.h"

namespace reprise::autograd {

/// target = source, cast and broadcast; any strides, two different devices. Not recorded.
void copy_across(const TensorView& source, const TensorView& target);

/// A contiguous copy of x on another device; the gradient is copied back.
Tensor copy_to(const Tensor& x, Device device);

}  // namespace reprise::autograd
