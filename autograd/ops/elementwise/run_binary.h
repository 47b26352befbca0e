// The kernel of an operation on two tensors, for the bodies of operations: nothing is recorded.
#pragma once

#include "reprise/core/tensor.h"
#include "reprise/kernels/elementwise/elementwise.h"

namespace reprise::autograd {

/// op(a, b), broadcast, in `result`, a dtype that the kernel gives of these. Error naming `name` where shapes or devices do not fit.
Tensor run_binary(kernels::BinaryOp op, const Tensor& a, const Tensor& b, DType result, const char* name);

}  // namespace reprise::autograd
