// The products of the emulator's cuBLASLt: what its descriptors hold, and the arithmetic.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>

namespace reprise::kernels::emulated {

struct Operation {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void *bias = nullptr, *aux = nullptr;
  int64_t aux_leading = 0;

  bool takes_bias() const { return epilogue & CUBLASLT_EPILOGUE_BIAS; }
  bool takes_gelu() const { return epilogue & CUBLASLT_EPILOGUE_GELU; }
  bool is_dgelu() const { return epilogue == CUBLASLT_EPILOGUE_DGELU; }
  bool has_aux() const { return epilogue & (CUBLASLT_EPILOGUE_GELU_AUX & ~CUBLASLT_EPILOGUE_GELU); }
};

struct Layout {
  cudaDataType type;
  int32_t batch = 1;
  int64_t rows, columns, leading, batch_stride = 0;

  int64_t extent() const { return (batch - 1) * batch_stride + (columns - 1) * leading + rows; }
};

/// A product whose sizes and types are known to fit.
struct Product {
  Operation operation;
  Layout a, b, c, d;

  int64_t depth() const { return operation.transpose_a == CUBLAS_OP_N ? a.columns : a.rows; }
};

struct Pointers {
  const void *a, *b, *c;
  void* d;
  double alpha, beta;
};

size_t bytes_of(cudaDataType_t type);

/// D = epilogue(alpha A B + beta C): each of the `pieces` of K is summed in order, then these sums are.
void run_product(const Product& product, const Pointers& at, int pieces);

}  // namespace reprise::kernels::emulated
