// The operands of a matrix multiply, checked and brought into one form; for the CPU and CUDA alike.
#pragma once

#include "reprise/kernels/gemm/gemm.h"

namespace reprise::kernels::gemm_detail {

/// A, B, C and the epilogue's matrices, expanded to C's batch dimensions. The optional ones may be absent.
struct Operands {
  TensorView a, b, c, pre_activation, residual, dactivation;
};

/// bias_gradient of an epilogue, by `reduce`.
void sum_rows(const Stream& stream, const TensorView& a, const TensorView& bias_gradient);

/// Rows of C that share a number of row_scale; 1 without it.
int64_t sample_rows(const TensorView& c, const Epilogue& epilogue);

/// Errors that name what does not fit.
Operands fit_operands(const GemmArguments& arguments);

/// A batch dimension over which B is the same and all others step evenly is more rows of one larger product.
void join_batches(Operands& x);

}  // namespace reprise::kernels::gemm_detail
