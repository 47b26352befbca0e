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

/// Where window i of all images begins: its image, row and column; the latter two may lie before the image.
struct Place {
  int64_t image, row, column;
  Place(int64_t i, Size2 count, const Windows& w)
      : image(i / (count.width * count.height)),
        row(i / count.width % count.height * w.stride.height - w.padding.height),
        column(i % count.width * w.stride.width - w.padding.width) {}
};

/// One window of an image (H, W, C), in each of its groups P Q runs of C / G channels.
template <class T>
void unfold_window(const T* image, const Shape& shape, const Windows& w, const Place& at, int64_t groups,
                   T* to) {
  const int64_t channels = shape[3], run = channels / groups, size = w.kernel.height * w.kernel.width * run;
  const Inside rows(at.row, w.kernel.height, w.dilation.height, shape[1]);
  const Inside columns(at.column, w.kernel.width, w.dilation.width, shape[2]);
  const bool whole =
      rows.end - rows.begin == w.kernel.height && columns.end - columns.begin == w.kernel.width;
  if (!whole) std::fill_n(to, groups * size, T(0.0f));
  for (int64_t p = rows.begin; p < rows.end; ++p)
    for (int64_t q = columns.begin; q < columns.end; ++q) {
      const int64_t row = at.row + p * w.dilation.height, column = at.column + q * w.dilation.width;
      const T* pixel = image + (row * shape[2] + column) * channels;
      for (int64_t g = 0; g < groups; ++g)
        std::copy_n(pixel + g * run, run, to + g * size + (p * w.kernel.width + q) * run);
    }
}

void unfold_cpu(const Stream&, const TensorView& x, const Windows& w, int64_t groups,
                const TensorView& columns) {
  if (columns.numel() == 0) return;
  const Size2 count = w.count(x.size(1), x.size(2));
  const int64_t image = x.size(1) * x.size(2) * x.size(3);
  dispatch_floating(x.dtype, "unfold", [&]<class T>() {
    const int64_t grain = std::max<int64_t>(1, (1 << 15) / columns.size(1));
    parallel_for(columns.size(0), grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Place at(i, count, w);
        unfold_window(x.as<T>() + at.image * image, x.shape, w, at, groups,
                      columns.as<T>() + i * columns.size(1));
      }
    });
  });
}

/// Sums `some` channels of an image, (H, W, some); `from` is their part of the first pixel of the image's first window, and those of
/// the next pixel are `run` further.
template <class T>
void fold_channels(const T* from, int64_t from_stride, const Shape& shape, int64_t run, int64_t some,
                   const Windows& w, Accumulator<T>* sums) {
  const Size2 count = w.count(shape[1], shape[2]);
  std::fill_n(sums, shape[1] * shape[2] * some, Accumulator<T>(0));
  for (int64_t i = 0; i < count.height * count.width; ++i, from += from_stride) {
    const Place at(i, count, w);
    const Inside rows(at.row, w.kernel.height, w.dilation.height, shape[1]);
    const Inside columns(at.column, w.kernel.width, w.dilation.width, shape[2]);
    for (int64_t p = rows.begin; p < rows.end; ++p)
      for (int64_t q = columns.begin; q < columns.end; ++q) {
        const int64_t row = at.row + p * w.dilation.height, column = at.column + q * w.dilation.width;
        Accumulator<T>* to = sums + (row * shape[2] + column) * some;
        const T* pixel = from + (p * w.kernel.width + q) * run;
        for (int64_t c = 0; c < some; ++c) to[c] += Accumulator<T>(pixel[c]);
      }
  }
}

void fold_cpu(const Stream&, const TensorView& columns, const Windows& w, int64_t groups, const TensorView& x,
              const TensorView& bias) {
  if (x.numel() == 0) return;
  const Size2 count = w.count(x.size(1), x.size(2));
  const int64_t channels = x.size(3), run = channels / groups, pixels = x.size(1) * x.size(2);
  const int64_t windows = count.height * count.width, size = columns.size(1) / groups;
  constexpr int64_t most = 16;  // channels of a task
  const int64_t blocks = (run + most - 1) / most;
  dispatch_floating(x.dtype, "fold", [&]<class T>() {
    const int64_t grain = std::max<int64_t>(1, (1 << 14) / (windows * size / blocks + pixels * most));
    const Stored<T> shifts = bias ? Stored<T>(bias) : Stored<T>();
    parallel_for(x.size(0) * groups * blocks, grain, [&](int64_t begin, int64_t end) {
      std::vector<Accumulator<T>> sums(static_cast<size_t>(pixels * std::min(most, run)));
      for (int64_t i = begin; i < end; ++i) {
        const int64_t image = i / (groups * blocks), g = i / blocks % groups, first = i % blocks * most;
        const int64_t some = std::min(most, run - first), channel = g * run + first;
        const T* from = columns.as<T>() + image * windows * columns.size(1) + g * size + first;
        fold_channels(from, columns.size(1), x.shape, run, some, w, sums.data());
        T* to = x.as<T>() + image * pixels * channels + channel;
        for (int64_t pixel = 0; pixel < pixels; ++pixel)
          for (int64_t c = 0; c < some; ++c) {
            const auto shift = shifts ? shifts[channel + c] : Accumulator<T>(0);
            to[pixel * channels + c] = T(sums[size_t(pixel * some + c)] + shift);
          }
      }
    });
  });
}

}  // namespace

decltype(unfold) unfold{"unfold", unfold_cpu};
decltype(fold) fold{"fold", fold_cpu};

}  // namespace reprise::kernels
