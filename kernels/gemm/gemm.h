// General matrix multiply with fused epilogues.
//
//   C = residual + row_scale * scale * activation(A B + bias)           (batch..., M, N)
//
// A is (batch..., M, K), B is (batch..., K, N); batch dimensions broadcast (stride 0). Any strides: a
// transposed operand is a transposed view. The rows of C, pre_activation and residual need stride 1. Sums
// over K are kept in f32 (f64 for f64), in an order that depends on the shape alone, never on the number of
// threads.
//
// A and B have one floating dtype. Where it is bf16 or f16, C and each tensor of the epilogue have it or f32, each
// its own: the sums stay in f32 through the epilogue and are rounded once, where they are written, so a C in f32 is
// not rounded at all. f32 and f64 products are of one dtype. On a GPU an f32 bias beside a 16-bit C is rounded to C's dtype
// before it is added, where cuBLASLt adds it.
#pragma once

#include "reprise/kernels/elementwise/activation.h"
#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

struct Epilogue {
  TensorView bias{};  ///< (N), optional
  Activation activation = Activation::none;
  TensorView pre_activation{};  ///< (batch..., M, N), optional: A B + bias is written here for backward
  TensorView residual{};        ///< (batch..., M, N), optional
  TensorView scale{};           ///< (N), optional: a factor for each column (LayerScale)
  /// (samples), optional: a factor for each sample, M / samples rows that follow each other (DropPath). For rank 2.
  TensorView row_scale{};
  /// (batch..., M, N), optional: instead of applying `activation`, multiplies A B by
  /// activation'(dactivation), where this holds the pre-activation of the forward pass. Excludes bias,
  /// pre_activation, scales and residual.
  TensorView dactivation{};
  /// C += instead of C =: for a C in the dtype of the sums, in the bits of C and the product, added.
  bool accumulate = false;
  /// C = A B + bias, in the bits that pre_activation gets from a call without this, where C has its dtype: for a replay
  /// of forward. Excludes pre_activation, scales, residual, dactivation and accumulate.
  bool stops_before_activation = false;
  /// (M), optional: the sums over K of A's rows are written here. Where A is dY^T (and C so the gradient of a
  /// weight), that is the gradient of the bias, which `reduce` sums before the product. For rank 2; excludes all else
  /// but `accumulate`.
  TensorView bias_gradient{};

  Activation applied_activation() const { return stops_before_activation ? Activation::none : activation; }
};

struct GemmArguments {
  TensorView a, b, c;
  Epilogue epilogue{};
};
extern Kernel<void(const GemmArguments& arguments)> gemm;

}  // namespace reprise::kernels
