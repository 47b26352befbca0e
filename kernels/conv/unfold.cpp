// Windows to rows and back on the CPU.
#include "reprise/kernels/conv/unfold.h"

#include <algorithm>
#include <vector>

#include "reprise/core/parallel.h"
#include "reprise/kernels/cpu/stored.h"

namespace reprise::kernels {
namespace {

/// The window's pixels [begin, end) of `kernel` that lie inside [0, size), if it starts at `first`.
struct Inside {
  int64_t begin, end;
  Inside(int64_t first, int64_t kernel, int64_t dilation, int64_t size)
      : begin(first >= 0 ? 0 : std::min(kernel, (-first + dilation - 1) / dilation)),
        end(first >= size ? begin : std::max(begin, std::min(kernel, (size - first - 1) / dilation + 1))) {}
};

template <class T>
void unfold_window(const T* x, const Shape& shape, const Windows& w, int64_t row, int64_t column, T* to) {
  const int64_t height = shape[2], width = shape[3], size = w.kernel.height * w.kernel.width;
  const Inside rows(row, w.kernel.height, w.dilation.height, height);
  const Inside columns(column, w.kernel.width, w.dilation.width, width);
  const bool whole =
      rows.end - rows.begin == w.kernel.height && columns.end - columns.begin == w.kernel.width;
  for (int64_t c = 0; c < shape[1]; ++c, x += height * width, to += size) {
    if (!whole) std::fill_n(to, size, T(0.0f));
    for (int64_t p = rows.begin; p < rows.end; ++p) {
      const T* from = x + (row + p * w.dilation.height) * width + column;
      T* at = to + p * w.kernel.width;
      for (int64_t q = columns.begin; q < columns.end; ++q) at[q] = from[q * w.dilation.width];
    }
  }
}

void unfold_cpu(const Stream&, const TensorView& x, const Windows& w, const TensorView& columns) {
  if (columns.numel() == 0) return;
  const Size2 count = w.count(x.size(2), x.size(3));
  const int64_t image = x.size(1) * x.size(2) * x.size(3);
  dispatch_floating(x.dtype, "unfold", [&]<class T>() {
    const int64_t grain = std::max<int64_t>(1, (1 << 15) / columns.size(1));
    parallel_for(columns.size(0), grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t column = i % count.width, row = i / count.width % count.height;
        unfold_window(x.as<T>() + i / (count.width * count.height) * image, x.shape, w,
                      row * w.stride.height - w.padding.height, column * w.stride.width - w.padding.width,
                      columns.as<T>() + i * columns.size(1));
      }
    });
  });
}

/// Sums one channel of one image; `from` is its part of the image's first row of columns.
template <class T>
void fold_plane(const T* from, int64_t from_stride, const Shape& shape, const Windows& w,
                Accumulator<T>* sums) {
  const int64_t height = shape[2], width = shape[3];
  const Size2 count = w.count(height, width);
  std::fill_n(sums, height * width, Accumulator<T>(0));
  for (int64_t i = 0; i < count.height; ++i)
    for (int64_t j = 0; j < count.width; ++j, from += from_stride) {
      const int64_t row = i * w.stride.height - w.padding.height,
                    column = j * w.stride.width - w.padding.width;
      const Inside rows(row, w.kernel.height, w.dilation.height, height);
      const Inside columns(column, w.kernel.width, w.dilation.width, width);
      for (int64_t p = rows.begin; p < rows.end; ++p) {
        Accumulator<T>* to = sums + (row + p * w.dilation.height) * width + column;
        for (int64_t q = columns.begin; q < columns.end; ++q)
          to[q * w.dilation.width] += Accumulator<T>(from[p * w.kernel.width + q]);
      }
    }
}

void fold_cpu(const Stream&, const TensorView& columns, const Windows& w, const TensorView& x,
              const TensorView& bias) {
  if (x.numel() == 0) return;
  const Size2 count = w.count(x.size(2), x.size(3));
  const int64_t channels = x.size(1), plane = x.size(2) * x.size(3);
  const int64_t window = w.kernel.height * w.kernel.width, images = count.height * count.width;
  dispatch_floating(x.dtype, "fold", [&]<class T>() {
    const int64_t grain = std::max<int64_t>(1, (1 << 14) / (images * window + plane));
    const Stored<T> shifts = bias ? Stored<T>(bias) : Stored<T>();
    parallel_for(x.size(0) * channels, grain, [&](int64_t begin, int64_t end) {
      std::vector<Accumulator<T>> sums(static_cast<size_t>(plane));
      for (int64_t i = begin; i < end; ++i) {
        const T* from = columns.as<T>() + i / channels * images * columns.size(1) + i % channels * window;
        fold_plane(from, columns.size(1), x.shape, w, sums.data());
        const auto shift = shifts ? shifts[i % channels] : Accumulator<T>(0);
        T* to = x.as<T>() + i * plane;
        for (int64_t j = 0; j < plane; ++j) to[j] = T(sums[size_t(j)] + shift);
      }
    });
  });
}

}  // namespace

decltype(unfold) unfold{"unfold", unfold_cpu};
decltype(fold) fold{"fold", fold_cpu};

}  // namespace reprise::kernels
