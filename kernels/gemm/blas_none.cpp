// A build without a BLAS.
#include "reprise/kernels/gemm/blas.h"

namespace reprise::kernels::vendor {

bool blas_is_built() { return false; }

bool blas_gemm(int64_t, int64_t, int64_t, BlasMatrix<const float>, BlasMatrix<const float>,
               BlasMatrix<float>) {
  return false;
}
bool blas_gemm(int64_t, int64_t, int64_t, BlasMatrix<const double>, BlasMatrix<const double>,
               BlasMatrix<double>) {
  return false;
}

}  // namespace reprise::kernels::vendor
