// One call of cuBLASLt in its own words, and the algorithm that it runs by.
//
// Note [Rows and columns]. cuBLASLt stores columns side by side, we rows. Our C (M, N) is its C^T (N, M), and
// C^T = B^T A^T: so its A is our B, its B our A, its rows our columns. A bias, one value for each of its
// rows, is one for each of our columns.
//
// Note [One algorithm for a product]. Recompute runs a product again with less behind it: the activation is left out,
// or the pre-activation is not written. The bits must be those of the first run, and the order of a sum is that of the
// algorithm. cuBLASLt's heuristic may answer each epilogue with another algorithm. So it is asked with the epilogue
// that writes most of those that may follow the product (its Family), and the answer is taken if cuBLASLt says that it
// runs all of them. If there is no such algorithm, the whole family is left to the product alone and finish_gemm.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <optional>

#include "reprise/core/stream.h"
#include "reprise/core/view.h"

namespace reprise::kernels::vendor {

/// What calls of one product have in common beside the product itself.
enum class Family : uint8_t {
  plain,  ///< the product, a matrix added or not
  bias,   ///< and a bias
  gelu,   ///< GELU, its pre-activation or both
  gelu_bias,
  dgelu,  ///< times GELU's derivative
};

struct CublasTypes {
  cudaDataType_t factors, result;
  cublasComputeType_t compute;
  cudaDataType_t scale;
};
CublasTypes cublas_types(DType factors, DType result);

/// A matrix as cuBLASLt sees it: `rows` side by side in memory, then the next column.
struct CublasMatrix {
  void* data = nullptr;
  int64_t rows = 0, columns = 0, leading = 0;
  bool transposed = false;  ///< it is to be used as its transpose
  int64_t batch_stride = 0;
  uint32_t alignment = 256;  ///< bytes, a power of two up to 256, of every matrix of the batch
};

/// Our (rows, columns) of x, so cuBLASLt's (columns, rows), as they lie or as the transpose of what lies
/// there. Nothing if neither dimension has stride 1.
std::optional<CublasMatrix> cublas_matrix(const TensorView& x);

/// D = epilogue(A B + C). `data` of C and D is alike if nothing is added.
struct CublasCall {
  Device device;
  CublasTypes types;
  CublasMatrix a, b, c, d;
  int64_t k, batch;
  Family family;
  cublasLtEpilogue_t epilogue;
  const void* bias = nullptr;  ///< 16-byte aligned
  void* aux = nullptr;         ///< the pre-activation, written by GELU_AUX, read by DGELU; 16-byte aligned
  int64_t aux_leading = 0;
  bool adds = false;
};

/// Enqueues the call; false, and nothing done, if cuBLASLt has no algorithm for the call's family.
bool run_cublaslt(const Stream& stream, const CublasCall& call);

}  // namespace reprise::kernels::vendor
