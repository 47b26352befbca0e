// Affine maps of an image onto itself: shear, translate, rotate, as Pillow's Image.transform and Image.rotate.
#pragma once

#include <array>

#include "reprise/data/transform.h"

namespace reprise::data {

enum class Interpolation { nearest, bilinear, bicubic };
std::string_view name_of(Interpolation interpolation);

/// The colour of what comes from outside the image; the first is gray's.
using Fill = std::array<uint8_t, 3>;

struct AffineOptions {
  Interpolation interpolation = Interpolation::nearest;
  Fill fill{};
};

/// Output pixel (x, y) is the input at (a x + b y + c, d x + e y + f), pixels at the middles of squares. The cubic has
/// a = -1. Error if a side is longer than 16,384.
void affine(io::Image& image, const std::array<double, 6>& map, const AffineOptions& options,
            TransformScratch& scratch);

/// Turns around the middle by `degrees` against the clock.
void rotate(io::Image& image, double degrees, const AffineOptions& options, TransformScratch& scratch);

}  // namespace reprise::data
