// Windows to rows and back: columns[(n, i, j), (g, p, q, c)] = x[n, row(i, p), column(j, q), (g, c)].
//
// Bytes: unfold reads an element of x once for each window that covers it, mostly from cache, and writes the
// columns; fold reads the columns once and writes x. A thread moves a pack of channels of a pixel, 16 bytes where they fit.
#include "reprise/kernels/conv/unfold.h"

#include <algorithm>

#include "reprise/kernels/cuda/reduce.cuh"
#include "reprise/kernels/gemm/output.cuh"

namespace reprise::kernels {
namespace {

using namespace device;

constexpr int threads = 256;
constexpr int64_t max_blocks = 1 << 20;

/// Sizes along the height or the width.
template <class I>
struct Axis {
  I size, count, kernel, stride, padding, dilation;

  /// The pixel of a window's place p, maybe outside.
  __device__ I pixel(I window, I p) const { return window * stride - padding + p * dilation; }
  /// The window whose place p a pixel is, or -1.
  __device__ I window(I pixel, I p) const {
    const I first = pixel + padding - p * dilation, index = first / stride;
    return first >= 0 && index * stride == first && index < count ? index : -1;
  }
};

/// Images (N, height, width, channels) and their windows, counted by integers I. Runs of `run` packs lie side by side in both,
/// one for each pixel and group.
template <class I>
struct Geometry {
  Axis<I> down, across;
  int64_t channels;
  int groups, run;

  Geometry(const TensorView& x, const Windows& w, int64_t g, int64_t pack)
      : channels(x.size(3)), groups(int(g)), run(int(channels / g / pack)) {
    const Size2 count = w.count(x.size(1), x.size(2));
    down = {I(x.size(1)),       I(count.height),     I(w.kernel.height),
            I(w.stride.height), I(w.padding.height), I(w.dilation.height)};
    across = {I(x.size(2)),      I(count.width),     I(w.kernel.width),
              I(w.stride.width), I(w.padding.width), I(w.dilation.width)};
  }
};

/// Whether all places of pixels and windows are numbers of 32 bits.
bool is_narrow(const TensorView& x, const Windows& w, const TensorView& columns) {
  constexpr int64_t most = 0x7fffffff;
  const int64_t padded = std::max(x.size(1) + 2 * w.padding.height, x.size(2) + 2 * w.padding.width);
  const int64_t step = std::max({w.stride.height, w.stride.width, w.dilation.height, w.dilation.width});
  return std::max({padded, step, columns.size(0), x.numel() / std::max<int64_t>(1, x.size(3))}) <= most;
}

/// Rows of a block side by side with the packs of a row: few packs leave room for several rows.
dim3 block_of(int64_t packs) {
  unsigned across = warp_threads;
  while (across < unsigned(threads) && across < packs) across *= 2;
  return dim3(across, threads / across);
}

/// A block takes some windows at a time.
template <class T, int N, class I>
__global__ void __launch_bounds__(threads)
    unfold_kernel(const T* x, T* columns, int64_t rows, const __grid_constant__ Geometry<I> of) {
  const int kernel_width = int(of.across.kernel), pixels = int(of.down.kernel) * kernel_width;
  const int packs = of.groups * pixels * of.run;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.y + threadIdx.y; i < rows;
       i += int64_t(gridDim.x) * blockDim.y) {
    const I line = I(i) / of.across.count, image = line / of.down.count;
    const I window_row = line - image * of.down.count, window_column = I(i) - line * of.across.count;
    T* to = columns + i * packs * N;
    for (int k = int(threadIdx.x); k < packs; k += int(blockDim.x)) {
      const int place = k / of.run, c = k - place * of.run;  // place: (g, p, q)
      const int g = place / pixels, pixel = place - g * pixels;
      const int p = pixel / kernel_width, q = pixel - p * kernel_width;
      const I row = of.down.pixel(window_row, p), column = of.across.pixel(window_column, q);
      const bool inside = row >= 0 && row < of.down.size && column >= 0 && column < of.across.size;
      Pack<T, N> pack;
#pragma unroll
      for (int e = 0; e < N; ++e) pack.at[e] = device::from<T>(0.0f);
      if (inside) {
        const int64_t at = (int64_t(image) * of.down.size + row) * of.across.size + column;
        pack = load_pack<N>(x + at * of.channels + (g * of.run + c) * N);
      }
      store_pack(to + int64_t(k) * N, pack);
    }
  }
}

/// A thread sums a pack of channels of a pixel. The last pixel of a window comes first: so the windows come in order.
template <class T, class C, int N, class I>
__global__ void __launch_bounds__(threads)
    fold_kernel(const Element<T>* columns, Element<T>* x, const Stored<T> bias, int64_t rows,
                const __grid_constant__ Geometry<I> of) {
  const int packs = of.groups * of.run;  // of a pixel
  const int pixels = int(of.down.kernel * of.across.kernel);
  for (int64_t i = int64_t(blockIdx.x) * blockDim.y + threadIdx.y; i < rows;
       i += int64_t(gridDim.x) * blockDim.y) {
    const I line = I(i) / of.across.size, image = line / of.down.size;
    const I row = line - image * of.down.size, column = I(i) - line * of.across.size;
    for (int k = int(threadIdx.x); k < packs; k += int(blockDim.x)) {
      const int g = k / of.run, c = k - g * of.run;
      C sums[N] = {};
      for (I p = of.down.kernel - 1; p >= 0; --p) {
        const I a = of.down.window(row, p);
        if (a < 0) continue;
        for (I q = of.across.kernel - 1; q >= 0; --q) {
          const I b = of.across.window(column, q);
          if (b < 0) continue;
          const int64_t window = (int64_t(image) * of.down.count + a) * of.across.count + b;
          const int64_t place = (int64_t(g) * pixels + p * of.across.kernel + q) * of.run + c;
          const auto pack = load_pack<N>(columns + (window * packs * pixels + place) * N);
#pragma unroll
          for (int e = 0; e < N; ++e) sums[e] += to<C>(pack.at[e]);
        }
      }
      Pack<Element<T>, N> out;
#pragma unroll
      for (int e = 0; e < N; ++e) {
        C shift[1] = {0};
        if (bias) bias.load(int64_t(k) * N + e, shift);
        out.at[e] = from<Element<T>>(sums[e] + shift[0]);
      }
      store_pack(x + i * of.channels + int64_t(k) * N, out);
    }
  }
}

/// Calls run<N, I>(): N elements of a pack, as many as fit 16 bytes where all runs begin and end at their multiples.
template <class T, class Run>
void with_packs(const TensorView& x, const Windows& windows, const TensorView& columns, int64_t groups,
                Run&& run) {
  constexpr int pack = pack_size<T>;
  auto aligned = [](const TensorView& view) { return reinterpret_cast<uintptr_t>(view.data) % 16 == 0; };
  if (x.size(3) / groups % pack == 0 && aligned(x) && aligned(columns) && is_narrow(x, windows, columns))
    run.template operator()<pack, int32_t>();
  else
    run.template operator()<1, int64_t>();
}

unsigned blocks_of(int64_t rows, dim3 block) {
  return unsigned(std::min(ceil_div<int64_t>(rows, block.y), max_blocks));
}

/// Error where 32 bits do not count what a window holds.
void check_window(const char* op, const TensorView& columns) {
  check(columns.size(1) <= 0x7fffffff - threads, op, ": a window of ", columns.size(1),
        " elements is too large");
}

void unfold_cuda(const Stream& stream, const TensorView& x, const Windows& windows, int64_t groups,
                 const TensorView& columns) {
  if (columns.numel() == 0) return;
  check_window("unfold", columns);
  dispatch_floating(x.dtype, "unfold", [&]<class T>() {
    with_packs<Element<T>>(x, windows, columns, groups, [&]<int N, class I>() {
      const dim3 block = block_of(columns.size(1) / N);
      simt::launch(
          {.name = "unfold", .grid = blocks_of(columns.size(0), block), .block = block, .stream = stream},
          unfold_kernel<Element<T>, N, I>, data_of<T>(x), data_of<T>(columns), columns.size(0),
          Geometry<I>(x, windows, groups, N));
    });
  });
}

void fold_cuda(const Stream& stream, const TensorView& columns, const Windows& windows, int64_t groups,
               const TensorView& x, const TensorView& bias) {
  if (x.numel() == 0) return;
  check_window("fold", columns);
  dispatch_floating(x.dtype, "fold", [&]<class T>() {
    with_packs<Element<T>>(x, windows, columns, groups, [&]<int N, class I>() {
      const dim3 block = block_of(x.size(3) / N);
      const int64_t pixels = x.numel() / x.size(3);
      simt::launch({.name = "fold", .grid = blocks_of(pixels, block), .block = block, .stream = stream},
                   fold_kernel<T, Accumulator<T>, N, I>, data_of<T>(columns), data_of<T>(x),
                   Stored<T>{bias.data, bias.dtype == DType::f32}, pixels,
                   Geometry<I>(x, windows, groups, N));
    });
  });
}

const OnCuda unfold_on_cuda{unfold, unfold_cuda};
const OnCuda fold_on_cuda{fold, fold_cuda};

}  // namespace
}  // namespace reprise::kernels
