#include "reprise/data/transforms/trivial_augment.h"

namespace reprise::data {

void TrivialAugmentWide::apply(io::Image& image, Draws& draws, TransformScratch& scratch) const {
  constexpr int64_t bins = 31;
  const auto operation = Operation(draws.below(14));
  const int64_t bin = draws.below(bins);
  augment(image,
          torchvision_augmentation(operation, bin, bins, trivial_augment_ranges, image.height, image.width,
                                   draws),
          options_, scratch);
}

}  // namespace reprise::data
