#include "reprise/data/transforms/flip.h"

#include <algorithm>

namespace reprise::data {

namespace {

template <int channels>
void flip_row(uint8_t* row, int64_t width) {
  uint8_t *left = row, *right = row + (width - 1) * channels;
  for (; left < right; left += channels, right -= channels) std::swap_ranges(left, left + channels, right);
}

}  // namespace

void flip_horizontally(io::Image& image) {
  for (int64_t y = 0; y < image.height; ++y)
    image.channels == 1 ? flip_row<1>(image.row(y), image.width) : flip_row<3>(image.row(y), image.width);
}

void flip_vertically(io::Image& image) {
  for (int64_t top = 0, bottom = image.height - 1; top < bottom; ++top, --bottom)
    std::swap_ranges(image.row(top), image.row(top) + image.row_bytes(), image.row(bottom));
}

RandomFlip::RandomFlip(double probability, Axis axis) : probability_(probability), axis_(axis) {
  check(probability >= 0 && probability <= 1, "flip: a probability of ", probability);
}

void RandomFlip::apply(io::Image& image, Draws& draws, TransformScratch&) const {
  if (!draws.chance(probability_)) return;
  axis_ == Axis::horizontal ? flip_horizontally(image) : flip_vertically(image);
}

std::string RandomFlip::text() const {
  return (axis_ == Axis::horizontal ? "flip " : "vertical_flip ") + shortest(probability_);
}

}  // namespace reprise::data
