// A build without cuBLASLt.
#include "reprise/kernels/gemm/cublaslt.h"

namespace reprise::kernels::vendor {

bool has_cublaslt() { return false; }

bool cublaslt_gemm(const Stream&, const gemm_detail::Operands&, const Epilogue&) { return false; }

}  // namespace reprise::kernels::vendor
