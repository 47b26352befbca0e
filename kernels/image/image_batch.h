// A batch of pictures of bytes as the tensor that a model takes: normalised, erased and mixed in one pass.
//
//   v[b, c, i, j] = table[c, images[b, i, j, c]], outside of sample b's erased box
//   y[b, c, i, j] = lambda v[b, ...] + (1 - lambda) v[b xor 1, ...], outside of the pair's box; inside v[b xor 1, ...]
//
// Sources: erasing (Zhong et al. 2017), mixup (Zhang et al. 2018), CutMix (Yun et al. 2019).
#pragma once

#include <span>
#include <vector>

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

/// A box is its first row, first column, rows and columns; it may reach over the edges, and be empty.
struct ImageBatchArguments {
  TensorView images;  ///< u8 (B, H, W, C)
  TensorView table;   ///< f32 (C, 256), as `image_table` makes it

  TensorView boxes{};  ///< i32 (B, 4): erased; optional
  /// i64 (B): fills sample b's box with standard normal numbers, element i of the picture (C, H, W) drawn from
  /// philox_block(noise_seed, noise[b], i / 4); optional: without it boxes are filled with 0.
  TensorView noise{};
  uint64_t noise_seed = 0;

  TensorView lambdas{};    ///< f32 (B / 2): samples 2 p and 2 p + 1 are each other's partners; optional
  TensorView mix_boxes{};  ///< i32 (B / 2, 4): cut from the partner; optional

  TensorView y;  ///< (B, C, H, W), floating
};

/// All views are contiguous. Not differentiable.
extern Kernel<void(const ImageBatchArguments& arguments)> image_batch;

/// What each byte of each channel becomes, (C, 256): (value * (1 / 255) - mean) / deviation, each step rounded to
/// f32: the bits of torchvision's ToDtype(float32, scale=True) and Normalize. Error unless there is one deviation
/// for each mean, and all are positive.
std::vector<float> image_table(std::span<const double> means, std::span<const double> deviations);

/// What any device checks before it launches.
void check_image_batch(const ImageBatchArguments& arguments);

/// Whether the box, four numbers, covers a pixel.
constexpr bool is_inside(const int32_t* box, int64_t row, int64_t column) {
  return row >= box[0] && row - box[0] < box[2] && column >= box[1] && column - box[1] < box[3];
}

}  // namespace reprise::kernels
