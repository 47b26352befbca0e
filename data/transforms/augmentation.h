// The operations that automatic augmentation draws from, and their strengths in torchvision's dialects.
#pragma once

#include "reprise/data/transforms/affine.h"

namespace reprise::data {

/// The first 14 are torchvision's, in its order.
enum class Operation {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  color,
  contrast,
  sharpness,
  posterize,
  solarize,
  auto_contrast,
  equalize,
  invert,
  solarize_add
};

/// An operation and its amount: the coefficient of a shear, input pixels to the right or down, degrees against the
/// clock, the factor of a blend, bits kept, the threshold, what is added.
struct Augmentation {
  Operation operation = Operation::identity;  ///< identity leaves the image as it is
  double amount = 0;                          ///< ignored where the operation has none
};

/// Does the operation to `image`; `options` are those of shears, translations and rotations.
void augment(io::Image& image, const Augmentation& augmentation, const AffineOptions& options,
             TransformScratch& scratch);

/// torchvision's largest strengths, reached at the last of `bins` bins.
struct AugmentationRanges {
  double shear;            ///< its coefficient
  double rotate;           ///< degrees
  double enhance;          ///< of brightness, color, contrast, sharpness: factors are 1 plus or minus it
  double translate;        ///< pixels, where it is not a share of the image
  double translate_share;  ///< of the side
  double posterize;        ///< bits lost
};
/// RandAugment's.
constexpr AugmentationRanges rand_augment_ranges{.shear = 0.3,
                                                 .rotate = 30,
                                                 .enhance = 0.9,
                                                 .translate = 0,
                                                 .translate_share = 150.0 / 331,
                                                 .posterize = 4};
/// TrivialAugmentWide's.
constexpr AugmentationRanges trivial_augment_ranges{
    .shear = 0.99, .rotate = 135, .enhance = 0.99, .translate = 32, .translate_share = 0, .posterize = 6};

/// The operation at strength `bin` of `bins`, for an image of (height, width). Draws whether the strength is negative,
/// for those that may be, as torchvision does: afterwards.
Augmentation torchvision_augmentation(Operation operation, int64_t bin, int64_t bins,
                                      const AugmentationRanges& ranges, int64_t height, int64_t width,
                                      Draws& draws);

/// "bilinear fill 124 116 104"
std::string text(const AffineOptions& options);

}  // namespace reprise::data
