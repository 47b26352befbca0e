// Crops whose place is drawn.
#pragma once

#include "reprise/data/transforms/resize.h"

namespace reprise::data {

struct RandomResizedCropOptions {
  int64_t height = 224, width = 224;
  double min_scale = 0.08, max_scale = 1;           ///< area of the crop in that of the image
  double min_ratio = 3.0 / 4, max_ratio = 4.0 / 3;  ///< width / height, log-uniform
  Filter filter = Filter::bicubic;
};
/// A box of drawn area and ratio (Szegedy et al. 2015), resampled to (height, width). After ten boxes that do not
/// fit, the largest central one whose ratio is allowed.
class RandomResizedCrop : public Crop {
 public:
  explicit RandomResizedCrop(RandomResizedCropOptions options);
  io::Box box(int64_t height, int64_t width, Draws& draws) const override;
  io::Size target() const override { return {options_.height, options_.width}; }
  void apply_to_part(const Part& part, io::Image& image, TransformScratch& scratch) const override;
  std::string text() const override;

 private:
  RandomResizedCropOptions options_;
};

enum class Padding { zero, reflect };

/// `image` with `pad` pixels more on each side. Error if it is too small to be reflected.
void pad_image(io::Image& image, int64_t pad, Padding padding, TransformScratch& scratch);

struct RandomCropOptions {
  int64_t height = 32, width = 32;
  int64_t pad = 4;
  Padding padding = Padding::zero;
};
/// (height, width) anywhere in the padded image. Error if that is smaller.
class RandomCrop : public Transform {
 public:
  explicit RandomCrop(RandomCropOptions options) : options_(options) {}
  Decision decision() const override { return Decision::crop; }
  void apply(io::Image& image, Draws& draws, TransformScratch& scratch) const override;
  std::string text() const override;

 private:
  RandomCropOptions options_;
};

}  // namespace reprise::data
