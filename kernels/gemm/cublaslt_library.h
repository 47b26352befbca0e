// The functions of cuBLASLt that products call: those of the library (cublaslt_library.cpp), which a program opens
// when it first needs it, or those of the emulator's model of it (cublaslt_emulated.cpp). A build has one of the two.
#pragma once

#include <cublasLt.h>

namespace reprise::kernels::vendor {

/// Named as in the library, without its prefix.
struct CublasLt {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtGetStatusName) status_name;
  decltype(&cublasLtGetStatusString) status_string;
  decltype(&cublasLtMatmulDescInit_internal) matmul_desc_init;
  decltype(&cublasLtMatmulDescSetAttribute) matmul_desc_set;
  decltype(&cublasLtMatrixLayoutInit_internal) matrix_layout_init;
  decltype(&cublasLtMatrixLayoutSetAttribute) matrix_layout_set;
  decltype(&cublasLtMatmulPreferenceInit_internal) preference_init;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulAlgoGetHeuristic) algo_get_heuristic;
  decltype(&cublasLtMatmulAlgoCheck) algo_check;
  decltype(&cublasLtMatmul) matmul;
};

/// Null where there is none.
const CublasLt* cublaslt_library();

}  // namespace reprise::kernels::vendor
