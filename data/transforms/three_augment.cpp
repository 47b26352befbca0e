#include "reprise/data/transforms/three_augment.h"

#include "reprise/data/transforms/blur.h"
#include "reprise/data/transforms/color.h"
#include "reprise/data/transforms/point.h"

namespace reprise::data {

void ThreeAugment::apply(io::Image& image, Draws& draws, TransformScratch& scratch) const {
  switch (draws.below(3)) {
    case 0:
      return to_gray(image);
    case 1:
      return solarize(image, 128);
    default:
      return gaussian_blur(image, draws.uniform(0.1, 2), scratch);
  }
}

}  // namespace reprise::data
