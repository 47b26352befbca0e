// A BLAS, where the build has one: blas_openblas.cpp or blas_none.cpp, as REPRISE_BLAS says, implements this.
#pragma once

#include <cstdint>

namespace reprise::kernels::vendor {

/// A matrix of any strides, in elements.
template <class T>
struct BlasMatrix {
  T* data;
  int64_t row_stride, column_stride;
};

bool blas_is_built();

/// C (M, N) = A (M, K) B (K, N). False, and nothing done, if the BLAS does not take this
/// product: neither rows nor columns have stride 1, a size over its integers, K = 0.
bool blas_gemm(int64_t m, int64_t n, int64_t k, BlasMatrix<const float> a, BlasMatrix<const float> b,
               BlasMatrix<float> c);
bool blas_gemm(int64_t m, int64_t n, int64_t k, BlasMatrix<const double> a, BlasMatrix<const double> b,
               BlasMatrix<double> c);

}  // namespace reprise::kernels::vendor
