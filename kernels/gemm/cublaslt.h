// Matrix products by cuBLASLt: cublaslt.cpp, or cublaslt_none.cpp in a build without CUDA.
#pragma once

#include "reprise/kernels/gemm/operands.h"

namespace reprise::kernels::vendor {

/// Whether products on CUDA devices go to cuBLASLt: the library is there, or the emulator's model of it is asked for.
bool has_cublaslt();

/// The whole product, epilogue included; K > 0 and nothing empty. False, with nothing done, if cuBLASLt does not take it: if
/// neither rows nor columns have stride 1, or if it has no algorithm for the alignment or the size. The epilogue must have no
/// bias_gradient: cuBLASLt's sums of that take longer than a pass of ours (docs/results/2026-11-27-h100.md).
bool cublaslt_gemm(const Stream& stream, const gemm_detail::Operands& x, const Epilogue& epilogue);

}  // namespace reprise::kernels::vendor
