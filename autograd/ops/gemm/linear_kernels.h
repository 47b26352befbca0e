// The three products of a linear layer, shared by `linear` and `mlp`. x (rows, in), weight (out, in), dy
// (rows, out).
#pragma once

#include "reprise/autograd/ops/raw.h"
#include "reprise/kernels/gemm/gemm.h"

namespace reprise::autograd {

/// (..., C) as a matrix (rows, C); copies only if the strides force it.
Tensor as_rows(const Tensor& x);

// What an epilogue reads must have rows of stride 1: the argument, or a copy that the caller keeps for the
// call.
Tensor bias_of(const Tensor& bias);
Tensor residual_rows(const Tensor& residual);

/// activation(x W^T + bias) + residual -> (rows, out); pre_activation (rows, out) is optional.
Tensor linear_forward(const Tensor& x, const Tensor& weight, const kernels::Epilogue& epilogue);

Tensor linear_dx(const Tensor& dy, const Tensor& weight, const kernels::Epilogue& epilogue = {});
/// dY^T X; with `dbias`, which is set, the gradient of the bias as well, while dY is read.
Tensor linear_dweight(const Tensor& dy, const Tensor& x, Tensor* dbias = nullptr);
Tensor linear_dbias(const Tensor& dy);

void check_bias(const Tensor& bias, const Tensor& weight, const char* op);
void check_residual(const Tensor& residual, const Tensor& x, int64_t width, const char* op);
void check_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const char* op);

}  // namespace reprise::autograd
