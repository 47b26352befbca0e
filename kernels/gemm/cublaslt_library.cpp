// cuBLASLt itself, opened at run time: a program of a CUDA build starts on machines without it, and its products then run
// on our own tiles.
#include "reprise/kernels/gemm/cublaslt_library.h"

#include <cublasLt.h>

#include <cstdio>

#include "reprise/core/cuda/runtime.h"
#include "reprise/core/error.h"
#include "reprise/kernels/cuda/shared_library.h"

namespace reprise::kernels::vendor {
namespace {

CublasLt find_functions(const device::SharedLibrary& from) {
  CublasLt all;
  from.find("cublasLtCreate", all.create);
  from.find("cublasLtGetStatusName", all.status_name);
  from.find("cublasLtGetStatusString", all.status_string);
  from.find("cublasLtMatmulDescInit_internal", all.matmul_desc_init);
  from.find("cublasLtMatmulDescSetAttribute", all.matmul_desc_set);
  from.find("cublasLtMatrixLayoutInit_internal", all.matrix_layout_init);
  from.find("cublasLtMatrixLayoutSetAttribute", all.matrix_layout_set);
  from.find("cublasLtMatmulPreferenceInit_internal", all.preference_init);
  from.find("cublasLtMatmulPreferenceSetAttribute", all.preference_set);
  from.find("cublasLtMatmulAlgoGetHeuristic", all.algo_get_heuristic);
  from.find("cublasLtMatmulAlgoCheck", all.algo_check);
  from.find("cublasLtMatmul", all.matmul);
  return all;
}

/// Null, with a word on stderr, if it cannot be opened: products are then many times slower.
const CublasLt* open_library() {
  if (cuda::device_count() == 0) return nullptr;  // there is no device to multiply on
  try {
    static const device::SharedLibrary library("libcublasLt.so", CUBLAS_VER_MAJOR);
    static const CublasLt functions = find_functions(library);
    return &functions;
  } catch (const Error& error) {
    std::fprintf(stderr, "reprise: %s; matrix products run on kernels of our own, which are slow\n",
                 error.what());
    return nullptr;
  }
}

}  // namespace

const CublasLt* cublaslt_library() {
  static const CublasLt* const opened = open_library();
  return opened;
}

}  // namespace reprise::kernels::vendor
