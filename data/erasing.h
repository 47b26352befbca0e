// Random erasing (Zhong et al. 2020): a box of a row of a batch, replaced after normalising.
#pragma once

#include <string>

#include "reprise/data/draws.h"
#include "reprise/io/images/image.h"

namespace reprise::data {

/// What fills the box, in normalised values: a normal draw for each element (timm's `pixel`), or zero.
enum class ErasingFill { noise, zero };

/// Defaults are timm's; torchvision's are area 0.02 to 0.33, ratio 0.3 to 3.3, zero.
struct ErasingOptions {
  double probability = 0.25;
  double min_area = 0.02, max_area = 1.0 / 3;   ///< of the image's
  double min_ratio = 0.3, max_ratio = 1 / 0.3;  ///< height / width
  ErasingFill fill = ErasingFill::noise;
};

/// The box that is erased; of height 0 where none is.
io::Box erased_box(const ErasingOptions& options, int64_t height, int64_t width, Draws draws);

std::string text(const ErasingOptions& options);

}  // namespace reprise::data
