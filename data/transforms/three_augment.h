// 3-Augment (DeiT III, Touvron et al. 2022): one of gray, solarize and blur; its color jitter is a transform of its
// own.
#pragma once

#include "reprise/data/transform.h"

namespace reprise::data {

/// Gray, solarize from 128 on, or a blur of radius U(0.1, 2), a third each.
class ThreeAugment : public Transform {
 public:
  /// The draws of augmentation, as RandAugment's: a pipeline has one of them.
  Decision decision() const override { return Decision::augment; }
  void apply(io::Image& image, Draws& draws, TransformScratch& scratch) const override;
  std::string text() const override { return "three_augment"; }
};

}  // namespace reprise::data
