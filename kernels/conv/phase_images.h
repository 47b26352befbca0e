// Images with a border of zeros, taken apart by the stride of the windows that look at them.
//
// Pixel (row, column) of the bordered image is in phase (row % stride, column % stride) at (row / stride,
// column / stride), so the pixels that windows side by side see at one place of theirs lie side by side too.
#pragma once

#include "reprise/core/view.h"
#include "reprise/kernels/conv/windows.h"

namespace reprise::kernels::conv2d_detail {

struct PhaseImages {
  int64_t channels;
  Size2 stride;
  Size2 border;  ///< rows above and columns to the left of an image's first pixel
  Size2 size;    ///< of a phase

  int64_t phase_numel() const { return size.height * size.width; }
  int64_t channel_stride() const { return stride.height * stride.width * phase_numel(); }
  int64_t image_stride() const { return channels * channel_stride(); }
  /// Where a pixel of the bordered image is, from the beginning of its image.
  int64_t offset(int64_t channel, int64_t row, int64_t column) const {
    const int64_t phase = row % stride.height * stride.width + column % stride.width;
    return channel * channel_stride() + phase * phase_numel() + row / stride.height * size.width +
           column / stride.width;
  }
  /// Whether images of this size are so already.
  bool is_plain(int64_t height, int64_t width) const {
    return stride.height == 1 && stride.width == 1 && border.height == 0 && border.width == 0 &&
           size.height == height && size.width == width;
  }
};

/// Images (n, channels, height, width), contiguous, to such memory, on the CPU, in `dtype`: theirs, or one of 16 bits for images of f32.
void split_images(const TensorView& images, const PhaseImages& layout, DType dtype, void* to);

/// The way back, for layouts without a border: pixels past the images' ends are left out.
void join_images(const void* from, const PhaseImages& layout, const TensorView& images);

}  // namespace reprise::kernels::conv2d_detail
