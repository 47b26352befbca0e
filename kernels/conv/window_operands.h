// The operands and the result of a convolution as matrices that are never written out: packing reads windows where
// the pixels lie.
//
// One axis of such a matrix counts pixels, of one image after the other; the other counts taps, the places
// (channel, p, q) of a window. The element at (pixel, tap) lies at data + pixel's offset + tap's offset.
#pragma once

#include <vector>

#include "reprise/kernels/gemm/blocks.h"
#include "reprise/kernels/gemm/epilogue.h"
#include "reprise/kernels/gemm/vector_unit.h"

namespace reprise::kernels::conv2d_detail {

using gemm_detail::PackRange;

/// Pixels (image, row, column) in order, side by side in a row.
struct PixelAxis {
  int64_t height, width;
  int64_t image_stride, row_stride;
};

/// Calls body(offset, done, count) for the runs of pixels that lie side by side among `count` from `begin` on.
template <class Body>
[[gnu::always_inline]] inline void for_each_run(const PixelAxis& axis, int64_t begin, int64_t count,
                                                Body&& body) {
  int64_t column = begin % axis.width, row = begin / axis.width % axis.height;
  int64_t image = begin / axis.width / axis.height;
  for (int64_t done = 0; done < count;) {
    const int64_t run = std::min(count - done, axis.width - column);
    body(image * axis.image_stride + row * axis.row_stride + column, done, run);
    done += run;
    column = 0;
    if (++row == axis.height) row = 0, ++image;
  }
}

template <class T>
struct WindowMatrix {
  const T* data;
  const T* end;  ///< of the memory that may be read
  PixelAxis pixels;
  const int64_t* taps;  ///< offsets
};

/// Copies `count` pixels, whole vectors of them: up to L - 1 more are written, zeros where they lie past `end`.
template <class C, int L, class T>
[[gnu::always_inline]] inline void copy_pixels(const T* from, const T* end, int64_t count, C* to) {
  int64_t i = 0;
  for (; i < count && end - from - i >= L; i += L) simd::store(to + i, simd::load_row<C, L>(from + i, L));
  for (; i < count; i += L) simd::store(to + i, simd::load_row<C, L>(from + i, end - from - i));
}

/// Pixels side by side in a panel, the sum along taps.
template <class T>
struct PixelsByTaps : WindowMatrix<T> {};

template <class C, int W, int width, class T>
[[gnu::always_inline]] inline void pack(const PixelsByTaps<T>& from, const PackRange& range, C* to) {
  constexpr int L = gemm_detail::lanes<C, W>;
  struct Run {
    int64_t offset, at, count;
  };
  const int64_t to_stride = gemm_detail::panel_stride(width, range.k);
  for (int64_t row = 0; row < range.rows; row += width, to += to_stride) {
    Run runs[width];
    int count = 0;
    const int64_t rows = std::min<int64_t>(width, range.rows - row);
    for_each_run(from.pixels, range.row + row, rows, [&](int64_t offset, int64_t at, int64_t pixels) {
      runs[count++] = {offset, at, pixels};
    });
    for (int64_t p = 0; p < range.k; ++p) {
      const T* data = from.data + from.taps[range.k0 + p];
      C* out = to + p * width;
      // Whole vectors: what runs over the end of a run is written anew by the next one, or the next tap.
      for (int r = 0; r < count; ++r)
        copy_pixels<C, L>(data + runs[r].offset, from.end, runs[r].count, out + runs[r].at);
      for (int64_t i = rows; i < width; ++i) out[i] = C(0);
    }
  }
}

/// Taps side by side in a panel, the sum along pixels.
template <class T>
struct TapsByPixels : WindowMatrix<T> {};

template <class C, int W, int width, class T>
[[gnu::always_inline]] inline void pack(const TapsByPixels<T>& from, const PackRange& range, C* to) {
  constexpr int L = gemm_detail::lanes<C, W>;
  constexpr int64_t depth = gemm_detail::VectorUnit<C>::max_k_panel, line = depth + L;
  const int64_t to_stride = gemm_detail::panel_stride(width, range.k);
  alignas(64) C lines[width * line];  // the panel, not yet transposed
  for (int64_t row = 0; row < range.rows; row += width, to += to_stride) {
    const int64_t rows = std::min<int64_t>(width, range.rows - row);
    for_each_run(from.pixels, range.k0, range.k, [&](int64_t offset, int64_t at, int64_t pixels) {
      for (int64_t i = 0; i < rows; ++i) {
        const T* data = from.data + from.taps[range.row + row + i] + offset;
        copy_pixels<C, L>(data, from.end, pixels, lines + i * line + at);
      }
    });
    std::fill(lines + rows * line, lines + width * line, C(0));
    const int64_t deep = gemm_detail::pack_transposed<C, L, width>(lines, line, range.k, to);
    const gemm_detail::PackSource<C> rest{lines + deep, line, 1};
    gemm_detail::pack_strided<C, width>(rest, width, range.k - deep, to + deep * width);
  }
}

/// A weight's channels side by side in a panel, `stride` apart, the sum along taps.
template <class T>
struct WeightByTaps {
  const T* data;
  int64_t stride;
  const int64_t* taps;
};

template <class C, int W, int width, class T>
[[gnu::always_inline]] inline void pack(const WeightByTaps<T>& from, const PackRange& range, C* to) {
  const int64_t to_stride = gemm_detail::panel_stride(width, range.k);
  for (int64_t row = 0; row < range.rows; row += width, to += to_stride)
    for (int64_t p = 0; p < range.k; ++p) {
      const T* data = from.data + (range.row + row) * from.stride + from.taps[range.k0 + p];
      for (int64_t i = 0; i < width; ++i)
        to[p * width + i] = row + i < range.rows ? C(data[i * from.stride]) : C(0);
    }
}

/// The result (channels, images x pixels), written into images with one bias per channel.
template <class T>
struct ImageOutput {
  T* data;
  int64_t image_stride, channel_stride;
  int64_t pixels;  ///< of a channel
  Stored<T> bias{};

  T* place(int64_t row, int64_t column) const {
    return data + column / pixels * image_stride + row * channel_stride + column % pixels;
  }
  gemm_detail::NextOutput next(int64_t row, int64_t column, int64_t columns) const {
    gemm_detail::NextOutput next;
    next.add(place(row, column), sizeof(T), columns, channel_stride);
    return next;
  }
};

template <int L, class T>
[[gnu::always_inline]] inline void write_sums(const ImageOutput<T>& out, const Accumulator<T>* sums,
                                              int64_t stride, int64_t row, int64_t column, int64_t rows,
                                              int64_t columns) {
  using C = Accumulator<T>;
  using V = simd::Vector<C, L>;
  while (columns > 0) {
    const int64_t run = std::min(columns, out.pixels - column % out.pixels);
    for (int64_t i = 0; i < rows; ++i) {
      const C shift = out.bias ? out.bias[row + i] : C(0);
      T* to = out.place(row + i, column);
      for (int64_t j = 0; j < run; j += L)
        simd::store_row<C, L>(to + j, simd::load<V>(sums + i * stride + j) + shift, run - j);
    }
    sums += run, column += run, columns -= run;
  }
}

}  // namespace reprise::kernels::conv2d_detail
