// a += b and its like.
#pragma once

#include "reprise/core/tensor.h"

namespace reprise {

/// @{
/// a = a + b and so on, in the dtype and shape of a, to which b broadcasts. Outside of any graph it happens in place:
/// whatever shares a's memory sees it. Where a graph is recorded, `a` becomes the result, gradients flow as through
/// a + b, and whatever else refers to the old tensor keeps that. Error on a leaf that requires grad unless under
/// NoGrad, as in PyTorch, and on a floating b where a is whole numbers. The result is `a`.
Tensor& operator+=(Tensor& a, const Tensor& b);
Tensor& operator-=(Tensor& a, const Tensor& b);
Tensor& operator*=(Tensor& a, const Tensor& b);
Tensor& operator/=(Tensor& a, const Tensor& b);
Tensor& operator+=(Tensor& a, double b);
Tensor& operator-=(Tensor& a, double b);
Tensor& operator*=(Tensor& a, double b);
Tensor& operator/=(Tensor& a, double b);
/// @}

}  // namespace reprise
