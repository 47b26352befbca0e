// Transforms that resample or cut without a draw: evaluation's.
#pragma once

#include "reprise/data/transform.h"

namespace reprise::data {

using kernels::Filter;

std::string_view name_of(Filter filter);  ///< "bilinear" or "bicubic"

/// Makes `image` (height, width).
void resize(io::Image& image, int64_t height, int64_t width, Filter filter, TransformScratch& scratch);

/// The size that Resize makes, and how.
struct ResizeOptions {
  int64_t size = 256;               ///< of the short side; the long one is int(size long / short)
  Filter filter = Filter::bicubic;  ///< of the resampling, with antialias
};
/// Resamples an image so that its short side has a size and its proportions stay, as torchvision's Resize(int).
class Resize : public Transform {
 public:
  /// Error unless the size is positive.
  explicit Resize(ResizeOptions options);
  void apply(io::Image& image, Draws& draws, TransformScratch& scratch) const override;
  std::string text() const override;

 private:
  ResizeOptions options_;
};

/// The middle (height, width), with zeros around an image that is smaller.
class CenterCrop : public Transform {
 public:
  /// The size of the result in pixels. Error unless both are positive.
  CenterCrop(int64_t height, int64_t width);
  void apply(io::Image& image, Draws& draws, TransformScratch& scratch) const override;
  std::string text() const override;

 private:
  int64_t height_, width_;
};

/// The size of the short side, the square that is cut, and how.
struct ResizeCropOptions {
  int64_t size = 256;               ///< of the short side, as Resize has it
  int64_t crop = 224;               ///< side of the square that is cut from the middle, at most `size`
  Filter filter = Filter::bicubic;  ///< of the resampling, with antialias
};
/// Resize, then CenterCrop, of which only what the crop looks at is decoded and resampled.
class ResizeCenterCrop : public Crop {
 public:
  /// Error unless `crop` is in [1, size].
  explicit ResizeCenterCrop(ResizeCropOptions options);
  /// None: it takes no draws.
  Decision decision() const override { return Decision::none; }
  /// The pixels of an image of (height, width) that resampling to the square reads.
  io::Box box(int64_t height, int64_t width, Draws& draws) const override;
  void apply_to_part(const Part& part, io::Image& image, TransformScratch& scratch) const override;
  std::string text() const override;

 private:
  ResizeCropOptions options_;
};

}  // namespace reprise::data
