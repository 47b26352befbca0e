// Windows that slide over images, as convolution and pooling have them.
#pragma once

#include <cstdint>

namespace reprise::kernels {

/// A size or step in both directions of an image: `{2, 3}` or, for a square, `2`.
struct Size2 {
  int64_t height, width;
  constexpr Size2(int64_t both) : height(both), width(both) {}
  constexpr Size2(int64_t h, int64_t w) : height(h), width(w) {}
};

/// Window (i, j) covers the pixels (i stride - padding + p dilation, j stride - padding + q dilation), (p, q)
/// in the kernel's size. Pixels outside the image are zeros.
struct Windows {
  Size2 kernel;
  Size2 stride = 1;
  Size2 padding = 0;
  Size2 dilation = 1;

  /// How many windows fit an image.
  constexpr Size2 count(int64_t height, int64_t width) const {
    return {count_along(height, kernel.height, stride.height, padding.height, dilation.height),
            count_along(width, kernel.width, stride.width, padding.width, dilation.width)};
  }

 private:
  static constexpr int64_t count_along(int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                                       int64_t dilation) {
    const int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
    return room < 0 ? 0 : room / stride + 1;
  }
};

}  // namespace reprise::kernels
