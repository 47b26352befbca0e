// Separable maps on CUDA: a thread makes a number of y from the pixels in its few rows and columns. Bytes: y once, x
// once for each number that it is part of, mostly from cache; the matrices are little beside them.
#include "reprise/kernels/image/separable2d.h"

#include "reprise/kernels/cuda/rows.cuh"

namespace reprise::kernels {
namespace {

using namespace device;

constexpr int block_threads = 256;

/// SparseRows in device code.
template <class C>
struct Matrix {
  const int32_t *starts, *sources;
  const C* weights;
};

template <class T, class C>
__global__ void __launch_bounds__(block_threads)
    separable2d_kernel(Pointer<const T> x, int64_t height, int64_t width, Matrix<C> rows, Matrix<C> columns,
                       Pointer<T> y, int64_t lines, int64_t line_length, int64_t count) {
  const int64_t at = int64_t(blockIdx.x) * block_threads + threadIdx.x;
  if (at >= count) return;
  const int64_t line = at / line_length, j = at - line * line_length;
  const int64_t plane = line / lines, i = line - plane * lines;
  const Pointer<const T> from = x + plane * height * width;
  C sum = 0;
  for (int32_t k = columns.starts[j]; k < columns.starts[j + 1]; ++k) {
    C down = 0;
    for (int32_t m = rows.starts[i]; m < rows.starts[i + 1]; ++m)
      down = multiply_add(rows.weights[m], to<C>(from[rows.sources[m] * width + columns.sources[k]]), down);
    sum = multiply_add(columns.weights[k], down, sum);
  }
  store_pack(y + at, Pack<Kept<T>, 1>{{device::from<Kept<T>>(sum)}});
}

template <class C>
Matrix<C> matrix_of(const SparseRows& rows) {
  return {rows.starts.as<int32_t>(), rows.sources.as<int32_t>(), rows.weights.as<C>()};
}

void separable2d_cuda(const Stream& stream, const TensorView& x, const SparseRows& rows,
                      const SparseRows& columns, const TensorView& y) {
  check_separable2d(x, rows, columns, y);
  if (y.numel() == 0) return;
  const TensorView* images[] = {&x, &y};
  dispatch_row_type("separable2d", images, [&]<class T>() {
    using C = Accumulator<T>;
    simt::launch({.name = "separable2d",
                  .grid = grid_of("separable2d", ceil_div<int64_t>(y.numel(), block_threads)),
                  .block = block_threads,
                  .stream = stream},
                 separable2d_kernel<Element<T>, C>, pointer_to<T>(x), x.size(2), x.size(3),
                 matrix_of<C>(rows), matrix_of<C>(columns), pointer_to<T>(y), y.size(2), y.size(3),
                 y.numel());
  });
}

const OnCuda separable2d_on_cuda{separable2d, separable2d_cuda};

}  // namespace
}  // namespace reprise::kernels
