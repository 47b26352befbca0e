// General matrix multiply with fused epilogues.
//
//   C = activation(A B + bias) + residual           (batch..., M, N)
//
// A is (batch..., M, K), B is (batch..., K, N); batch dimensions broadcast (stride 0). Any strides: a
// transposed operand is a transposed view. The rows of C, pre_activation and residual need stride 1. Sums
// over K are kept in f32 (f64 for f64), in an order that depends on the shape alone, never on the number of
// threads.
#pragma once

#include "reprise/kernels/elementwise/activation.h"
#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

struct Epilogue {
  TensorView bias{};  ///< (N), optional
  Activation activation = Activation::none;
  TensorView pre_activation{};  ///< (batch..., M, N), optional: A B + bias is written here for backward
  TensorView residual{};        ///< (batch..., M, N), optional
  /// (batch..., M, N), optional: instead of applying `activation`, multiplies A B by
  /// activation'(dactivation), where this holds the pre-activation of the forward pass. Excludes bias,
  /// pre_activation and residual.
  TensorView dactivation{};
  bool accumulate = false;  ///< C += instead of C =
  /// (M), optional: the sums over K of A's rows are written here. Where A is dY^T (and C so the gradient of a
  /// weight), that is the gradient of the bias, read together with the product's dY where the backend can,
  /// else by `reduce` of A^T over its rows. For rank 2; excludes all else.
  TensorView bias_gradient{};
};

struct GemmArguments {
  TensorView a, b, c;
  Epilogue epilogue{};
};
extern Kernel<void(const GemmArguments& arguments)> gemm;

}  // namespace reprise::kernels
