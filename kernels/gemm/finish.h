// The epilogue of a matrix multiply on CUDA as a kernel of its own, for sums that are computed elsewhere.
#pragma once

#include "reprise/kernels/gemm/operands.h"

namespace reprise::kernels {

/// x.c = epilogue(sums), where `sums` has C's shape, rows of stride 1, the dtype of x.a or f32, and may be C's own
/// memory if it has C's dtype; absent sums are zeros. x.a and x.b are not read.
void finish_gemm(const Stream& stream, const TensorView& sums, const gemm_detail::Operands& x,
                 const Epilogue& epilogue);

}  // namespace reprise::kernels
