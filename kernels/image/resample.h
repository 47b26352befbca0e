// Resampling of u8 images, as Pillow up to version 12 does it, to the bit: separable, horizontal first, u8 between
// the passes, weights of 22 bits. Reads x and writes y once, and what is between them twice, mostly from cache.
#pragma once

#include "reprise/core/view.h"
#include "reprise/kernels/image/resample_weights.h"

namespace reprise::kernels {

/// x (H, W, C) to y (h, w, C), both u8 of any strides; a crop of an image is a slice of its view.
/// An axis whose `in` is 0 takes the views for the whole images; else they are parts of them.
struct ResampleArguments {
  TensorView x;                      ///< read
  TensorView y;                      ///< written
  Filter filter = Filter::bilinear;  ///< of both axes
  ResampleAxis vertical{};           ///< of the rows
  ResampleAxis horizontal{};         ///< of the columns
};

/// Memory of a caller that resamples again and again: nothing is allocated once it saw the largest image.
struct ResampleScratch {
  AxisWeights vertical;          ///< of the second pass
  AxisWeights horizontal;        ///< of the first pass
  std::vector<uint8_t> rows;     ///< some rows of x
  std::vector<uint8_t> columns;  ///< the same as columns, and what becomes of them
  std::vector<uint8_t> between;  ///< the result of the first pass
};

/// Runs on the caller's thread alone: image workers call it. Error if shapes, dtypes or parts do not fit, or a
/// size is 0.
void resample(const ResampleArguments& arguments, ResampleScratch& scratch);

}  // namespace reprise::kernels
