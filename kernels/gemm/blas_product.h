// One matrix multiply by a BLAS. Our code applies the epilogue afterwards, to one slab of rows after another.
#pragma once

#include <algorithm>
#include <type_traits>

#include "reprise/core/parallel.h"
#include "reprise/kernels/gemm/blas.h"
#include "reprise/kernels/gemm/matrix.h"

namespace reprise::kernels::gemm_detail {

/// C = epilogue(A B), (M, N) = (M, K) (K, N). False, and nothing done, if the BLAS does not take it. Sources
/// are as for MatrixMultiply: b's `stride` is between its columns.
template <class T>
bool multiply_by_blas(const PackSource<T>& a, const PackSource<T>& b, const Output<T>& out, int64_t m,
                      int64_t n, int64_t k) {
  if constexpr (!std::is_same_v<T, float> && !std::is_same_v<T, double>) {
    return false;
  } else {
    vendor::BlasMatrix<const T> left{a.data, a.stride, a.k_stride}, right{b.data, b.k_stride, b.stride};
    if (out.plain())
      return vendor::blas_gemm(m, n, k, left, right,
                               {static_cast<T*>(out.c.numbers.data()), out.c.stride, 1});

    // write_sums reads whole vectors, so the rows of a slab end in room for one more.
    constexpr int64_t slab_elements = 1 << 20;
    const int64_t row_stride = ceil_div(n, 16) * 16,
                  slab = std::clamp<int64_t>(slab_elements / row_stride, 1, m);
    T* sums = workspace().sums.ensure<T>(slab * row_stride);
    for (int64_t row = 0; row < m; row += slab) {
      const int64_t rows = std::min(slab, m - row);
      left.data = a.data + row * a.stride;
      if (!vendor::blas_gemm(rows, n, k, left, right, {sums, row_stride, 1})) {
        invariant(row == 0, "gemm: the BLAS took a part of a product");
        return false;
      }
      parallel_for(rows, std::max<int64_t>(1, (1 << 14) / n), [&](int64_t begin, int64_t end) {
        simd::run([&]<int W>() {
          write_sums<lanes<T, W>>(out, sums + begin * row_stride, row_stride, row + begin, 0, end - begin, n);
        });
      });
    }
    return true;
  }
}

}  // namespace reprise::kernels::gemm_detail
