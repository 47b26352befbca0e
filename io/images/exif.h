// EXIF: how a camera was held, and turning its image the right way up.
#pragma once

#include <cstdint>
#include <string_view>

#include "reprise/io/images/image.h"

namespace reprise::io {

/// How pixels are stored: `upright`, or so that they must be turned as the EXIF standard's tag 0x0112 numbers it, 1 to 8.
/// A pixel (y, x) of the upright image is (row, column) = (y, x) of the stored one, or (x, y) where rows and columns are
/// swapped; then counted from the end where they are mirrored.
struct Orientation {
  bool swaps = false;
  bool mirrors_rows = false, mirrors_columns = false;  ///< of the stored image

  bool is_upright() const { return !swaps && !mirrors_rows && !mirrors_columns; }
};

/// The orientation of the standard's number; upright for a number that it does not have.
Orientation orientation_of(int number);

/// What a block of EXIF (a TIFF header and its first directory) says; upright if it says nothing or is broken.
Orientation exif_orientation(std::string_view exif);

/// The part of the stored image, `height` x `width`, that `upright_box` of the upright one is.
Box stored_box(Orientation orientation, Box upright_box, int64_t height, int64_t width);

/// Turns `stored` into `upright`, another image.
void turn_upright(const Image& stored, Orientation orientation, Image& upright);

}  // namespace reprise::io
