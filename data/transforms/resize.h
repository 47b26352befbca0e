// Transforms that resample or cut without a draw: evaluation's.
#pragma once

#include "reprise/data/transform.h"

namespace reprise::data {

using kernels::Filter;

std::string_view name_of(Filter filter);

/// Makes `image` (height, width).
void resize(io::Image& image, int64_t height, int64_t width, Filter filter, TransformScratch& scratch);

struct ResizeOptions {
  int64_t size = 256;  ///< of the short side; the long one is int(size long / short)
  Filter filter = Filter::bicubic;
};
class Resize : public Transform {
 public:
  explicit Resize(ResizeOptions options);
  void apply(io::Image& image, Draws& draws, TransformScratch& scratch) const override;
  std::string text() const override;

 private:
  ResizeOptions options_;
};

/// The middle (height, width), with zeros around an image that is smaller.
class CenterCrop : public Transform {
 public:
  CenterCrop(int64_t height, int64_t width);
  void apply(io::Image& image, Draws& draws, TransformScratch& scratch) const override;
  std::string text() const override;

 private:
  int64_t height_, width_;
};

struct ResizeCropOptions {
  int64_t size = 256;  ///< of the short side, as Resize has it
  int64_t crop = 224;  ///< at most `size`
  Filter filter = Filter::bicubic;
};
/// Resize, then CenterCrop, of which only what the crop looks at is decoded and resampled.
class ResizeCenterCrop : public Crop {
 public:
  explicit ResizeCenterCrop(ResizeCropOptions options);
  Decision decision() const override { return Decision::none; }
  io::Box box(int64_t height, int64_t width, Draws& draws) const override;
  void apply_to_part(const Part& part, io::Image& image, TransformScratch& scratch) const override;
  std::string text() const override;

 private:
  ResizeCropOptions options_;
};

}  // namespace reprise::data
