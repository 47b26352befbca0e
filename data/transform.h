// Transform: one step on a sample's way from a decoded image to a row of a batch, u8 (H, W, C) to u8 (H, W, C).
#pragma once

#include <string>

#include "reprise/core/number_in.h"
#include "reprise/data/draws.h"
#include "reprise/io/images/image.h"
#include "reprise/kernels/image/resample.h"

namespace reprise::data {

/// What a transform decides by draws: its number among the transforms of a sample. It is the same in every
/// pipeline, so adding a transform changes no other's numbers; two that draw the same have no place in one.
enum class Decision : int { none, crop, flip, vertical_flip, augment, jitter, gray, blur, erasing, solarize };

/// Memory that one worker uses again for each sample.
struct TransformScratch {
  io::Image decoded;                  ///< where a pipeline's first transform begins
  io::Image other;                    ///< where a transform writes that cannot work in place
  kernels::ResampleScratch resample;  ///< weights of a resampling, and rows between its passes
  std::vector<float> colors;          ///< an image for arithmetic
  std::vector<double> x;              ///< where an affine map finds a row's pixels: columns of the input
  std::vector<double> y;              ///< its rows
  std::vector<uint32_t> sums;         ///< of columns
};

/// One step on a sample's way, u8 (H, W, C) to u8 (H, W, C). Thread-safe: nothing changes after construction.
class Transform {
 public:
  virtual ~Transform() = default;

  /// What it decides by draws, and so which of a sample's draws it takes; `none`: it takes none.
  virtual Decision decision() const { return Decision::none; }
  /// Changes `image`, whose memory and that of `scratch` may be swapped. Error if the image does not suit.
  virtual void apply(io::Image& image, Draws& draws, TransformScratch& scratch) const = 0;
  /// As the run's description has it: a word and the options, "flip 0.5".
  virtual std::string text() const = 0;
};

/// A box of an image of (height, width).
struct Part {
  io::Box box;         ///< inside the image
  int64_t height = 0;  ///< of the whole image
  int64_t width = 0;   ///< of the whole image
};

/// A transform that looks at a part of the image only, known from the size of the whole: as a pipeline's first
/// it lets no more than that be decoded.
class Crop : public Transform {
 public:
  /// The part that it looks at of an image of (height, width), which lies inside it.
  virtual io::Box box(int64_t height, int64_t width, Draws& draws) const = 0;
  /// What a part is resampled to whatever its size, so that it may come smaller; empty: it must have all its pixels.
  virtual io::Size target() const { return {}; }
  /// Goes on from the pixels of `part`.
  virtual void apply_to_part(const Part& part, io::Image& image, TransformScratch& scratch) const = 0;

  Decision decision() const override { return Decision::crop; }
  void apply(io::Image& image, Draws& draws, TransformScratch& scratch) const final;
};

/// The pixels as a view (H, W, C), of the image's memory.
TensorView view_of(io::Image& image);
/// The pixels of a box that lies inside it as a view (height, width, C), of the image's memory.
TensorView view_of(io::Image& image, const io::Box& box);

/// Cuts `image` to a box that lies inside it.
void cut(io::Image& image, const io::Box& box);

}  // namespace reprise::data
