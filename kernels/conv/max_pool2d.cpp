// Maxima of windows on the CPU, a plane at a time.
#include "reprise/kernels/conv/max_pool2d.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "reprise/core/parallel.h"
#include "reprise/kernels/row_checks.h"

namespace reprise::kernels {
namespace {

/// The first pixel of a window that lies in the image, along one dimension.
int64_t first_inside(int64_t window, int64_t stride, int64_t padding, int64_t dilation) {
  const int64_t first = window * stride - padding;
  return first >= 0 ? first : first + (-first + dilation - 1) / dilation * dilation;
}

/// Error unless each window has a pixel inside [0, size), along one dimension.
void check_windows(const char* op, int64_t windows, int64_t size, int64_t kernel, int64_t stride,
                   int64_t padding, int64_t dilation) {
  for (int64_t i = 0; i < windows; ++i) {
    const int64_t first = first_inside(i, stride, padding, dilation);
    check(first <= i * stride - padding + (kernel - 1) * dilation && first < size, op, ": window ", i,
          " covers no pixel of ", size);
  }
}

/// A line of windows, the one that begins at `row` of the plane x: the maxima and their places. One place of all
/// windows after the other, so that no branch depends on a pixel.
template <class T, class C>
void pool_line(const T* x, int64_t height, int64_t width, const Windows& w, int64_t line, int64_t count,
               C* best, int32_t* places) {
  const int64_t top = first_inside(line, w.stride.height, w.padding.height, w.dilation.height),
                step = w.stride.width;
  for (int64_t j = 0; j < count; ++j) {
    best[j] = -std::numeric_limits<C>::infinity();
    places[j] = int32_t(top * width + first_inside(j, step, w.padding.width, w.dilation.width));
  }
  const int64_t end = std::min(
      height, line * w.stride.height - w.padding.height + (w.kernel.height - 1) * w.dilation.height + 1);
  for (int64_t row = top; row < end; row += w.dilation.height)
    for (int64_t q = 0; q < w.kernel.width; ++q) {
      const int64_t shift = q * w.dilation.width - w.padding.width;  // window j has column j step + shift
      const int64_t from = shift >= 0 ? 0 : (-shift + step - 1) / step;
      const int64_t to = shift >= width ? 0 : std::min(count, (width - 1 - shift) / step + 1);
      const int64_t first = row * width + shift;
      for (int64_t j = from; j < to; ++j) {
        const C value = C(x[first + j * step]);
        const bool wins = (value > best[j]) | (value != value);
        best[j] = wins ? value : best[j];
        places[j] = wins ? int32_t(first + j * step) : places[j];
      }
    }
}

/// Calls body(plane) for each of x's planes; `work` is the pixels it looks at.
template <class Body>
void for_each_plane(const TensorView& x, int64_t work, Body&& body) {
  parallel_for(x.size(0) * x.size(1), std::max<int64_t>(1, (1 << 14) / std::max<int64_t>(1, work)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t plane = begin; plane < end; ++plane) body(plane);
               });
}

void max_pool2d_cpu(const Stream&, const TensorView& x, const Windows& w, const TensorView& y,
                    const TensorView& places) {
  check_max_pool2d("max_pool2d", x, w, y, places);
  if (y.numel() == 0) return;
  const int64_t height = x.size(2), width = x.size(3), rows = y.size(2), columns = y.size(3);
  dispatch_floating(x.dtype, "max_pool2d", [&]<class T>() {
    for_each_plane(x, rows * columns * w.kernel.height * w.kernel.width, [&](int64_t plane) {
      std::vector<Accumulator<T>> best(static_cast<size_t>(columns));
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t at = (plane * rows + i) * columns;
        pool_line(x.as<T>() + plane * height * width, height, width, w, i, columns, best.data(),
                  places.as<int32_t>() + at);
        for (int64_t j = 0; j < columns; ++j) y.as<T>()[at + j] = T(best[size_t(j)]);
      }
    });
  });
}

void max_pool2d_dx_cpu(const Stream&, const TensorView& dy, const TensorView& places, const Windows& w,
                       const TensorView& dx) {
  check_max_pool2d("max_pool2d_dx", dx, w, dy, places);
  if (dx.numel() == 0) return;
  const int64_t pixels = dx.size(2) * dx.size(3), windows = dy.size(2) * dy.size(3);
  dispatch_floating(dx.dtype, "max_pool2d_dx", [&]<class T>() {
    for_each_plane(dx, pixels + windows, [&](int64_t plane) {
      std::vector<Accumulator<T>> sums(static_cast<size_t>(pixels));
      for (int64_t i = plane * windows; i < (plane + 1) * windows; ++i)
        sums[size_t(places.as<int32_t>()[i])] += Accumulator<T>(dy.as<T>()[i]);
      T* to = dx.as<T>() + plane * pixels;
      for (int64_t i = 0; i < pixels; ++i) to[i] = T(sums[size_t(i)]);
    });
  });
}

}  // namespace

void check_max_pool2d(const char* op, const TensorView& x, const Windows& windows, const TensorView& y,
                      const TensorView& places) {
  const auto& [kernel, stride, padding, dilation] = windows;
  check(x.rank() == 4 && y.rank() == 4 && x.size(0) == y.size(0) && x.size(1) == y.size(1), op, ": images ",
        x.shape, " and windows ", y.shape, " do not fit");
  check(is_floating(x.dtype) && y.dtype == x.dtype, op, ": dtypes are ", x.dtype, " and ", y.dtype,
        ", should be one floating");
  check_view(op, "places", places, y.shape, DType::i32);
  check(x.is_contiguous() && y.is_contiguous() && places.is_contiguous(), op, ": needs contiguous views");
  check(x.size(2) * x.size(3) <= 0x7fffffff, op, ": a plane of ", x.size(2), " x ", x.size(3),
        " is too large");
  check_windows(op, y.size(2), x.size(2), kernel.height, stride.height, padding.height, dilation.height);
  check_windows(op, y.size(3), x.size(3), kernel.width, stride.width, padding.width, dilation.width);
}

decltype(max_pool2d) max_pool2d{"max_pool2d", max_pool2d_cpu};
decltype(max_pool2d_dx) max_pool2d_dx{"max_pool2d_dx", max_pool2d_dx_cpu};

}  // namespace reprise::kernels
