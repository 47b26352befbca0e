// TrivialAugment (Mueller and Hutter 2021), its wide space, as torchvision's.
#pragma once

#include "reprise/data/transforms/augmentation.h"

namespace reprise::data {

/// One of 14 operations at one of 31 bins.
class TrivialAugmentWide : public Transform {
 public:
  /// `options` are of shears, translations and rotations.
  explicit TrivialAugmentWide(AffineOptions options = {}) : options_(options) {}
  Decision decision() const override { return Decision::augment; }
  void apply(io::Image& image, Draws& draws, TransformScratch& scratch) const override;
  std::string text() const override { return "trivial_augment_wide " + data::text(options_); }

 private:
  AffineOptions options_;
};

}  // namespace reprise::data
