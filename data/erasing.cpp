#include "reprise/data/erasing.h"

#include <cmath>

#include "reprise/data/transform.h"

namespace reprise::data {

io::Box erased_box(const ErasingOptions& options, int64_t height, int64_t width, Draws draws) {
  if (!draws.chance(options.probability)) return {};
  const double area = double(height * width);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = draws.uniform(options.min_area, options.max_area) * area;
    const double ratio = std::exp(draws.uniform(std::log(options.min_ratio), std::log(options.max_ratio)));
    const auto box_height = int64_t(std::nearbyint(std::sqrt(target * ratio)));
    const auto box_width = int64_t(std::nearbyint(std::sqrt(target / ratio)));
    if (box_height >= height || box_width >= width) continue;
    const int64_t top = draws.below(height - box_height + 1), left = draws.below(width - box_width + 1);
    return {top, left, box_height, box_width};
  }
  return {};
}

std::string text(const ErasingOptions& options) {
  return detail::join("erasing ", shortest(options.probability), " area ", shortest(options.min_area), " to ",
                      shortest(options.max_area), " ratio ", shortest(options.min_ratio), " to ",
                      shortest(options.max_ratio), options.fill == ErasingFill::noise ? " noise" : " zero");
}

}  // namespace reprise::data
