// RandAugment (Cubuk et al. 2020) in two dialects, whose magnitudes differ: 9 of torchvision's 31 bins turns by 9
// degrees, 9 of timm's 10 by 27.
#pragma once

#include "reprise/data/transforms/augmentation.h"

namespace reprise::data {

struct RandAugmentOptions {
  int64_t operations = 2;
  int64_t magnitude = 9, bins = 31;
  AffineOptions affine{};
};
/// torchvision's: `operations` of its 14, each at that bin.
class RandAugment : public Transform {
 public:
  explicit RandAugment(RandAugmentOptions options);
  Decision decision() const override { return Decision::augment; }
  void apply(io::Image& image, Draws& draws, TransformScratch& scratch) const override;
  std::string text() const override;

 private:
  RandAugmentOptions options_;
};

struct TimmRandAugmentOptions {
  int64_t operations = 2;
  double magnitude = 9, deviation = 0.5;  ///< of the normal number, cut to [0, 10], that each magnitude is
  double probability = 0.5;               ///< of each operation
  AffineOptions affine{.interpolation = Interpolation::bicubic, .fill = {124, 116, 104}};
};
/// timm's "rand-m9-mstd0.5-inc1": `operations` of its 15, each stronger with its magnitude. Its interpolation is the
/// recipe's, not drawn.
class TimmRandAugment : public Transform {
 public:
  explicit TimmRandAugment(TimmRandAugmentOptions options);
  Decision decision() const override { return Decision::augment; }
  void apply(io::Image& image, Draws& draws, TransformScratch& scratch) const override;
  std::string text() const override;

 private:
  TimmRandAugmentOptions options_;
};

enum class Sign { positive, negative };

/// timm's amount for a magnitude in [0, 10], of those operations that have one.
double timm_amount(Operation operation, double magnitude, Sign sign, int64_t height, int64_t width);

}  // namespace reprise::data
