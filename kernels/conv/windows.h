// Windows that slide over images, as convolution and pooling have them.
#pragma once

#include <cstdint>

namespace reprise::kernels {

/// A size or step in both directions of an image: `{2, 3}` or, for a square, `2`. Programs call it `reprise::Size2`.
struct Size2 {
  int64_t height;                                                 ///< downwards
  int64_t width;                                                  ///< to the right
  constexpr Size2(int64_t both) : height(both), width(both) {}    ///< the same in both directions
  constexpr Size2(int64_t h, int64_t w) : height(h), width(w) {}  ///< height first
};
/// What recompute compares of a call: see autograd::AttributeHash.
void for_each_attribute(const Size2& size, const auto& visit) { visit(size.height), visit(size.width); }

/// Window (i, j) covers the pixels (i stride - padding + p dilation, j stride - padding + q dilation), (p, q)
/// in the kernel's size. Pixels outside the image are zeros.
struct Windows {
  Size2 kernel;        ///< pixels of a window
  Size2 stride = 1;    ///< pixels from one window to the next
  Size2 padding = 0;   ///< zeros around the image, on each side
  Size2 dilation = 1;  ///< pixels from one of the window's to the next; 1: they are neighbours

  /// How many windows fit an image; none too where the sizes pass the range of int64.
  constexpr Size2 count(int64_t height, int64_t width) const {
    return {count_along(height, kernel.height, stride.height, padding.height, dilation.height),
            count_along(width, kernel.width, stride.width, padding.width, dilation.width)};
  }

 private:
  static constexpr int64_t count_along(int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                                       int64_t dilation) {
    int64_t padded = 0, covered = 0, room = 0;
    if (__builtin_mul_overflow(int64_t(2), padding, &padded) ||
        __builtin_add_overflow(padded, size, &padded) ||
        __builtin_mul_overflow(dilation, kernel - 1, &covered) ||
        __builtin_sub_overflow(padded, covered, &room) || room < 1)
      return 0;
    return (room - 1) / stride + 1;
  }
};

/// What recompute compares of a call: see autograd::AttributeHash.
void for_each_attribute(const Windows& windows, const auto& visit) {
  visit(windows.kernel), visit(windows.stride), visit(windows.padding), visit(windows.dilation);
}

}  // namespace reprise::kernels
