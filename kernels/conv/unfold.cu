// Windows to rows and back: columns[(n, i, j), (c, p, q)] = x[n, c, row(i, p), column(j, q)].
//
// Bytes: unfold reads an element of x once for each window that covers it, mostly from cache, and writes the
// columns; fold reads the columns once and writes x.
#include "reprise/kernels/conv/unfold.h"

#include <algorithm>

#include "reprise/kernels/cuda/types.cuh"
#include "reprise/kernels/gemm/output.cuh"

namespace reprise::kernels {
namespace {

using namespace device;

constexpr int max_threads = 256;
constexpr int64_t max_blocks = 1 << 20;

/// Images (N, channels, height, width) and their windows.
struct Geometry {
  int64_t channels, height, width;
  Size2 count;
  Windows windows;

  Geometry(const TensorView& x, const Windows& w)
      : channels(x.size(1)), height(x.size(2)), width(x.size(3)), count(w.count(height, width)), windows(w) {}
};

/// A block takes a window at a time, so that only it divides large numbers; a thread takes pixels.
template <class T>
__global__ void __launch_bounds__(max_threads)
    unfold_kernel(const T* x, T* columns, int64_t rows, const __grid_constant__ Geometry of) {
  const Windows& w = of.windows;
  const int pixels = int(w.kernel.height * w.kernel.width), kernel_width = int(w.kernel.width);
  const int row_size = int(of.channels) * pixels;
  for (int64_t i = blockIdx.x; i < rows; i += gridDim.x) {
    const int64_t line = i / of.count.width, image = line / of.count.height;
    const int64_t first_row = (line - image * of.count.height) * w.stride.height - w.padding.height;
    const int64_t first_column = (i - line * of.count.width) * w.stride.width - w.padding.width;
    for (int k = int(threadIdx.x); k < row_size; k += int(blockDim.x)) {
      const int c = k / pixels, pixel = k - c * pixels;
      const int p = pixel / kernel_width, q = pixel - p * kernel_width;
      const int64_t row = first_row + p * w.dilation.height, column = first_column + q * w.dilation.width;
      const bool inside = row >= 0 && row < of.height && column >= 0 && column < of.width;
      const int64_t from = ((image * of.channels + c) * of.height + row) * of.width + column;
      columns[i * row_size + k] = inside ? x[from] : device::from<T>(0.0f);
    }
  }
}

/// The window whose pixel `p` lies at `at`, or -1.
__device__ __forceinline__ int64_t window_at(int64_t at, int64_t p, int64_t stride, int64_t padding,
                                             int64_t dilation, int64_t count) {
  const int64_t first = at + padding - p * dilation, window = first / stride;
  return first >= 0 && window * stride == first && window < count ? window : -1;
}

/// A thread sums one element of x. The last pixel of a window comes first: so the windows come in order.
template <class T, class C>
__global__ void __launch_bounds__(max_threads)
    fold_kernel(const Element<T>* columns, Element<T>* x, const Stored<T> bias, int64_t count,
                const __grid_constant__ Geometry of) {
  const Windows& w = of.windows;
  const int64_t row_size = of.channels * w.kernel.height * w.kernel.width;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += int64_t(gridDim.x) * blockDim.x) {
    const int64_t line = i / of.width, column = i - line * of.width, plane = line / of.height;
    const int64_t row = line - plane * of.height, image = plane / of.channels,
                  c = plane - image * of.channels;
    C sum = 0;
    for (int64_t p = w.kernel.height - 1; p >= 0; --p) {
      const int64_t a =
          window_at(row, p, w.stride.height, w.padding.height, w.dilation.height, of.count.height);
      if (a < 0) continue;
      for (int64_t q = w.kernel.width - 1; q >= 0; --q) {
        const int64_t b =
            window_at(column, q, w.stride.width, w.padding.width, w.dilation.width, of.count.width);
        if (b < 0) continue;
        const int64_t window = (image * of.count.height + a) * of.count.width + b;
        sum += to<C>(columns[window * row_size + (c * w.kernel.height + p) * w.kernel.width + q]);
      }
    }
    C shift[1] = {0};
    if (bias) bias.load(c, shift);
    x[i] = from<Element<T>>(sum + shift[0]);
  }
}

void unfold_cuda(const Stream& stream, const TensorView& x, const Windows& windows,
                 const TensorView& columns) {
  if (columns.numel() == 0) return;
  check(columns.size(1) <= 0x7fffffff, "unfold: a window of ", columns.size(1), " elements is too large");
  const int64_t threads = std::min<int64_t>(max_threads, ceil_div<int64_t>(columns.size(1), 32) * 32);
  dispatch_floating(x.dtype, "unfold", [&]<class T>() {
    simt::launch({.name = "unfold",
                  .grid = unsigned(std::min(columns.size(0), max_blocks)),
                  .block = unsigned(threads),
                  .stream = stream},
                 unfold_kernel<Element<T>>, data_of<T>(x), data_of<T>(columns), columns.size(0),
                 Geometry(x, windows));
  });
}

void fold_cuda(const Stream& stream, const TensorView& columns, const Windows& windows, const TensorView& x,
               const TensorView& bias) {
  const int64_t count = x.numel();
  if (count == 0) return;
  dispatch_floating(x.dtype, "fold", [&]<class T>() {
    simt::launch({.name = "fold",
                  .grid = unsigned(std::min(ceil_div<int64_t>(count, max_threads), max_blocks)),
                  .block = max_threads,
                  .stream = stream},
                 fold_kernel<T, Accumulator<T>>, data_of<T>(columns), data_of<T>(x),
                 Stored<T>{bias.data, bias.dtype == DType::f32}, count, Geometry(x, windows));
  });
}

const OnCuda unfold_on_cuda{unfold, unfold_cuda};
const OnCuda fold_on_cuda{fold, fold_cuda};

}  // namespace
}  // namespace reprise::kernels
