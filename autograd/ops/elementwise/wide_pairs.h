// a - b and a b in f32, for what is made of them and autocast computes in f32.
#pragma once

#include "reprise/core/tensor.h"

namespace reprise::autograd {

/// a - b, broadcast. Under autocast in f32: 16 bits are read where they lie, and their gradients rounded once. Elsewhere both are of one
/// dtype, which is the result's.
Tensor difference(const Tensor& a, const Tensor& b);
/// a b, in the same way.
Tensor product(const Tensor& a, const Tensor& b);

}  // namespace reprise::autograd
