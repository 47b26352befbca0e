// RandAugment (Cubuk et al. 2020) in two dialects, whose magnitudes differ: 9 of torchvision's 31 bins turns by 9
// degrees, 9 of timm's 10 by 27.
#pragma once

#include "reprise/data/transforms/augmentation.h"

namespace reprise::data {

/// How many operations an image gets, and how strong they are; defaults are torchvision's.
struct RandAugmentOptions {
  int64_t operations = 2;  ///< per image, one after the other; 0 to 12
  int64_t magnitude = 9;   ///< which bin, in [0, bins): the last is the strongest
  int64_t bins = 31;       ///< 2 or more
  AffineOptions affine{};  ///< of shears, translations and rotations
};
/// torchvision's: `operations` of its 14, each at that bin.
class RandAugment : public Transform {
 public:
  /// Error unless there are 0 to 12 operations, two bins or more, and `magnitude` is one of them.
  explicit RandAugment(RandAugmentOptions options);
  Decision decision() const override { return Decision::augment; }
  void apply(io::Image& image, Draws& draws, TransformScratch& scratch) const override;
  std::string text() const override;

 private:
  RandAugmentOptions options_;
};

/// How many operations an image gets, and how strong they are; defaults are those of "rand-m9-mstd0.5-inc1".
struct TimmRandAugmentOptions {
  int64_t operations = 2;  ///< drawn per image; 0 to 12
  double magnitude = 9;    ///< mean of the normal number, cut to [0, 10], that each operation's magnitude is
  double deviation = 0.5;  ///< its deviation; 0: all have `magnitude`
  double probability = 0.5;  ///< of each operation
  /// Of shears, translations and rotations; the fill is ImageNet's mean.
  AffineOptions affine{.interpolation = Interpolation::bicubic, .fill = {124, 116, 104}};
};
/// timm's "rand-m9-mstd0.5-inc1": `operations` of its 15, each stronger with its magnitude. Its interpolation is the
/// recipe's, not drawn.
class TimmRandAugment : public Transform {
 public:
  /// Error unless there are 0 to 12 operations, and magnitude and deviation are not below 0.
  explicit TimmRandAugment(TimmRandAugmentOptions options);
  Decision decision() const override { return Decision::augment; }
  void apply(io::Image& image, Draws& draws, TransformScratch& scratch) const override;
  std::string text() const override;

 private:
  TimmRandAugmentOptions options_;
};

/// Which way an operation goes that has two: a turn, a shear, a translation, a blend.
enum class Sign { positive, negative };

/// timm's amount for a magnitude in [0, 10], of those operations that have one.
double timm_amount(Operation operation, double magnitude, Sign sign, int64_t height, int64_t width);

}  // namespace reprise::data
