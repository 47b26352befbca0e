// Matrix products by cuBLASLt: cublaslt.cpp, or cublaslt_none.cpp in a build without CUDA.
#pragma once

#include "reprise/kernels/gemm/operands.h"

namespace reprise::kernels::vendor {

/// Whether products on CUDA devices go to cuBLASLt: the library is there, or the emulator's model of it is asked for.
bool has_cublaslt();

/// The whole product, epilogue included; K > 0 and nothing empty. False, and nothing done, if cuBLASLt does
/// not take it: neither rows nor columns have stride 1, or an alignment or a size it has no algorithm for. No
/// bias_gradient: its epilogue for that takes as long as a pass of our own (docs/results/).
bool cublaslt_gemm(const Stream& stream, const gemm_detail::Operands& x, const Epilogue& epilogue);

}  // namespace reprise::kernels::vendor
