// Maxima of windows on CUDA, a thread each. Bytes: forward reads a pixel once for each window that covers it, mostly
// from cache, and writes y and 4 bytes of place; backward gathers: each pixel looks at the windows that cover it.
#include "reprise/kernels/conv/max_pool2d.h"

#include "reprise/kernels/cuda/types.cuh"

namespace reprise::kernels {
namespace {

using namespace device;

constexpr int block_threads = 256;

struct Geometry {
  int64_t height, width, rows, columns;  ///< of a plane, and of its windows
  Windows windows;
};

template <class T, class C>
__global__ void __launch_bounds__(block_threads)
    max_pool2d_kernel(const T* x, T* y, int32_t* places, int64_t count, const __grid_constant__ Geometry of) {
  const int64_t at = int64_t(blockIdx.x) * block_threads + threadIdx.x;
  if (at >= count) return;
  const Windows& w = of.windows;
  const int64_t line = at / of.columns, plane = line / of.rows;
  const int64_t row = (line - plane * of.rows) * w.stride.height - w.padding.height;
  const int64_t column = (at - line * of.columns) * w.stride.width - w.padding.width;
  const T* from = x + plane * of.height * of.width;
  int64_t place = -1;
  C best = 0;
  for (int64_t p = 0; p < w.kernel.height; ++p) {
    const int64_t i = row + p * w.dilation.height;
    if (i < 0 || i >= of.height) continue;
    for (int64_t q = 0; q < w.kernel.width; ++q) {
      const int64_t j = column + q * w.dilation.width;
      if (j < 0 || j >= of.width) continue;
      const C value = to<C>(from[i * of.width + j]);
      if (place >= 0 && !(value > best) && value == value) continue;
      best = value;
      place = i * of.width + j;
    }
  }
  places[at] = int32_t(place);
  y[at] = device::from<T>(best);
}

/// The windows [begin, end) along one dimension that cover the pixel `at`, and some that step over it.
struct Near {
  int64_t begin, end;
  __device__ Near(int64_t at, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                  int64_t count) {
    const int64_t last = at + padding, first = last - (kernel - 1) * dilation;
    begin = first <= 0 ? 0 : (first + stride - 1) / stride;
    end = min(count, last / stride + 1);
  }
};

template <class T, class C>
__global__ void __launch_bounds__(block_threads)
    max_pool2d_dx_kernel(const T* dy, const int32_t* places, T* dx, int64_t count,
                         const __grid_constant__ Geometry of) {
  const int64_t at = int64_t(blockIdx.x) * block_threads + threadIdx.x;
  if (at >= count) return;
  const Windows& w = of.windows;
  const int64_t pixels = of.height * of.width, plane = at / pixels, place = at - plane * pixels;
  const int64_t row = place / of.width, column = place - row * of.width, first = plane * of.rows * of.columns;
  const Near rows(row, w.kernel.height, w.stride.height, w.padding.height, w.dilation.height, of.rows);
  const Near columns(column, w.kernel.width, w.stride.width, w.padding.width, w.dilation.width, of.columns);
  C sum = 0;
  for (int64_t i = rows.begin; i < rows.end; ++i)
    for (int64_t j = columns.begin; j < columns.end; ++j) {
      const int64_t window = first + i * of.columns + j;
      if (places[window] == place) sum += to<C>(dy[window]);
    }
  dx[at] = device::from<T>(sum);
}

Geometry geometry_of(const TensorView& x, const TensorView& y, const Windows& windows) {
  return {x.size(2), x.size(3), y.size(2), y.size(3), windows};
}

/// A thread for each element of `result`.
simt::Launch launch_over(const char* name, const Stream& stream, const TensorView& result) {
  return {.name = name,
          .grid = grid_of(name, ceil_div<int64_t>(result.numel(), block_threads)),
          .block = block_threads,
          .stream = stream};
}

void max_pool2d_cuda(const Stream& stream, const TensorView& x, const Windows& windows, const TensorView& y,
                     const TensorView& places) {
  check_max_pool2d("max_pool2d", x, windows, y, places);
  if (y.numel() == 0) return;
  dispatch_floating(x.dtype, "max_pool2d", [&]<class T>() {
    simt::launch(launch_over("max_pool2d", stream, y), max_pool2d_kernel<Element<T>, Accumulator<T>>,
                 data_of<T>(x), data_of<T>(y), places.as<int32_t>(), y.numel(), geometry_of(x, y, windows));
  });
}

void max_pool2d_dx_cuda(const Stream& stream, const TensorView& dy, const TensorView& places,
                        const Windows& windows, const TensorView& dx) {
  check_max_pool2d("max_pool2d_dx", dx, windows, dy, places);
  if (dx.numel() == 0) return;
  dispatch_floating(dx.dtype, "max_pool2d_dx", [&]<class T>() {
    simt::launch(launch_over("max_pool2d_dx", stream, dx), max_pool2d_dx_kernel<Element<T>, Accumulator<T>>,
                 data_of<T>(dy), places.as<int32_t>(), data_of<T>(dx), dx.numel(),
                 geometry_of(dx, dy, windows));
  });
}

const OnCuda max_pool2d_on_cuda{max_pool2d, max_pool2d_cuda};
const OnCuda max_pool2d_dx_on_cuda{max_pool2d_dx, max_pool2d_dx_cuda};

}  // namespace
}  // namespace reprise::kernels
