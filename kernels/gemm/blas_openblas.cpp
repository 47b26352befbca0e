// The products that OpenBLAS takes.
#include <cblas.h>

#include <limits>

#include "reprise/core/parallel.h"
#include "reprise/kernels/gemm/blas.h"

namespace reprise::kernels::vendor {
namespace {

/// How BLAS is told of a matrix: as it is, or as the transpose of one whose rows have stride 1.
struct Layout {
  bool valid = false;
  CBLAS_TRANSPOSE transpose = CblasNoTrans;
  int64_t leading = 0;
};

constexpr int64_t largest = std::numeric_limits<blasint>::max();

/// A matrix of one row (or column) has any leading dimension that BLAS accepts.
Layout layout_of(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride) {
  const int64_t by_rows = rows == 1 ? columns : row_stride, by_columns = columns == 1 ? rows : column_stride;
  if ((column_stride == 1 || columns == 1) && by_rows >= columns)
    return {by_rows <= largest, CblasNoTrans, by_rows};
  if ((row_stride == 1 || rows == 1) && by_columns >= rows)
    return {by_columns <= largest, CblasTrans, by_columns};
  return {};
}

void use_our_threads() {
  if (openblas_get_num_threads() != num_threads()) openblas_set_num_threads(num_threads());
}

template <class T, class Gemm>
bool multiply(Gemm gemm, int64_t m, int64_t n, int64_t k, BlasMatrix<const T> a, BlasMatrix<const T> b,
              BlasMatrix<T> c) {
  if (m < 1 || n < 1 || k < 1 || m > largest || n > largest || k > largest) return false;
  const Layout of_a = layout_of(m, k, a.row_stride, a.column_stride);
  const Layout of_b = layout_of(k, n, b.row_stride, b.column_stride);
  const Layout of_c = layout_of(m, n, c.row_stride, c.column_stride);
  if (!of_a.valid || !of_b.valid || !of_c.valid || of_c.transpose != CblasNoTrans) return false;
  use_our_threads();
  gemm(CblasRowMajor, of_a.transpose, of_b.transpose, blasint(m), blasint(n), blasint(k), T(1), a.data,
       blasint(of_a.leading), b.data, blasint(of_b.leading), T(0), c.data, blasint(of_c.leading));
  return true;
}

}  // namespace

bool blas_is_built() { return true; }

bool blas_gemm(int64_t m, int64_t n, int64_t k, BlasMatrix<const float> a, BlasMatrix<const float> b,
               BlasMatrix<float> c) {
  return multiply<float>(cblas_sgemm, m, n, k, a, b, c);
}
bool blas_gemm(int64_t m, int64_t n, int64_t k, BlasMatrix<const double> a, BlasMatrix<const double> b,
               BlasMatrix<double> c) {
  return multiply<double>(cblas_dgemm, m, n, k, a, b, c);
}

}  // namespace reprise::kernels::vendor
