// Affine maps of an image onto itself: shear, translate, rotate, as Pillow's Image.transform and Image.rotate.
#pragma once

#include <array>

#include "reprise/data/transform.h"

namespace reprise::data {

/// How a value between pixels is found: from 1, 4 or 16 of them.
enum class Interpolation { nearest, bilinear, bicubic };
std::string_view name_of(Interpolation interpolation);  ///< "nearest", "bilinear" or "bicubic"

/// The colour of what comes from outside the image; the first is gray's.
using Fill = std::array<uint8_t, 3>;

/// How a map finds its pixels, inside the image and outside of it.
struct AffineOptions {
  Interpolation interpolation = Interpolation::nearest;  ///< between pixels
  Fill fill{};                                           ///< outside; black if nothing is said
};

/// Output pixel (x, y) is the input at (a x + b y + c, d x + e y + f), pixels at the middles of squares. The cubic has
/// a = -1. Error if a side is longer than 16,384.
void affine(io::Image& image, const std::array<double, 6>& map, const AffineOptions& options,
            TransformScratch& scratch);

/// Turns around the middle by `degrees` against the clock.
void rotate(io::Image& image, double degrees, const AffineOptions& options, TransformScratch& scratch);

}  // namespace reprise::data
