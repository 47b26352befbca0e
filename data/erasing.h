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
  double probability = 0.25;              ///< that a row is erased in
  double min_area = 0.02;                 ///< of the box, in that of the image
  double max_area = 1.0 / 3;              ///< the area is drawn evenly from between
  double min_ratio = 0.3;                 ///< height / width of the box
  double max_ratio = 1 / 0.3;             ///< its logarithm is drawn evenly from between
  ErasingFill fill = ErasingFill::noise;  ///< what the box holds then
};

/// The box that is erased; of height 0 where none is.
io::Box erased_box(const ErasingOptions& options, int64_t height, int64_t width, Draws draws);

/// The options in words, for the description of a run.
std::string text(const ErasingOptions& options);

}  // namespace reprise::data
