// Crops whose place is drawn.
#pragma once

#include "reprise/data/transforms/resize.h"

namespace reprise::data {

/// The result, and the boxes that it is cut from. Scale and ratio are torchvision's by default.
struct RandomResizedCropOptions {
  int64_t height = 224;             ///< of the result, in pixels
  int64_t width = 224;              ///< of the result, in pixels
  double min_scale = 0.08;          ///< least area of the crop in that of the image, above 0
  double max_scale = 1;             ///< largest area; the scale is uniform
  double min_ratio = 3.0 / 4;       ///< least width / height, above 0
  double max_ratio = 4.0 / 3;       ///< largest; the ratio is log-uniform
  Filter filter = Filter::bicubic;  ///< of the resampling to (height, width), with antialias
};
/// A box of drawn area and ratio (Szegedy et al. 2015), resampled to (height, width). After ten boxes that do not
/// fit, the largest central one whose ratio is allowed.
class RandomResizedCrop : public Crop {
 public:
  /// Error unless height and width are positive, and the ranges of scale and ratio begin above 0 and are not reversed.
  explicit RandomResizedCrop(RandomResizedCropOptions options);
  /// The drawn box, by the rule of torchvision's get_params.
  io::Box box(int64_t height, int64_t width, Draws& draws) const override;
  io::Size target() const override { return {options_.height, options_.width}; }
  void apply_to_part(const Part& part, io::Image& image, TransformScratch& scratch) const override;
  std::string text() const override;

 private:
  RandomResizedCropOptions options_;
};

/// What stands around an image: zeros, or its pixels mirrored at the edge, which is not repeated.
enum class Padding { zero, reflect };

/// `image` with `pad` pixels more on each side. Error if it is too small to be reflected.
void pad_image(io::Image& image, int64_t pad, Padding padding, TransformScratch& scratch);

/// The size of the crop, and what is put around an image before. Defaults are for CIFAR.
struct RandomCropOptions {
  int64_t height = 32;              ///< of the crop, in pixels
  int64_t width = 32;               ///< of the crop, in pixels
  int64_t pad = 4;                  ///< pixels on each side; 0: none
  Padding padding = Padding::zero;  ///< what these are
};
/// (height, width) anywhere in the padded image. Error if that is smaller.
class RandomCrop : public Transform {
 public:
  /// Error on a size of 0 or less, or a negative pad. An image that is too small is an Error of `apply`.
  explicit RandomCrop(RandomCropOptions options);
  Decision decision() const override { return Decision::crop; }
  void apply(io::Image& image, Draws& draws, TransformScratch& scratch) const override;
  std::string text() const override;

 private:
  RandomCropOptions options_;
};

}  // namespace reprise::data
