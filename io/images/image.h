// An image in memory, and what of a file's image is wanted.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace reprise::io {

/// Pixels as u8 (height, width, channels), rows one after the other. `resize` keeps the memory, so that an image that is
/// read into again and again allocates nothing once it was largest.
struct Image {
  int64_t height = 0;           ///< rows
  int64_t width = 0;            ///< pixels of a row
  int64_t channels = 0;         ///< 1 (gray) or 3 (red, green, blue)
  std::vector<uint8_t> pixels;  ///< height x width x channels, the channels of a pixel side by side

  int64_t row_bytes() const { return width * channels; }  ///< from one row to the next
  /// @{
  /// The first pixel of row y, which is not checked.
  uint8_t* row(int64_t y) { return pixels.data() + y * row_bytes(); }
  const uint8_t* row(int64_t y) const { return pixels.data() + y * row_bytes(); }
  /// @}

  /// Gives the image this size; what the pixels hold then is not said.
  void resize(int64_t new_height, int64_t new_width, int64_t new_channels) {
    height = new_height, width = new_width, channels = new_channels;
    pixels.resize(size_t(height * width * channels));
  }
};

/// The size of an image in pixels; by default of none.
struct Size {
  int64_t height = 0;  ///< rows
  int64_t width = 0;   ///< columns
  friend bool operator==(const Size&, const Size&) = default;
};

/// A rectangle of pixels.
struct Box {
  int64_t top = 0;     ///< its first row
  int64_t left = 0;    ///< its first column
  int64_t height = 0;  ///< rows; 0: no rectangle
  int64_t width = 0;   ///< columns
  friend bool operator==(const Box&, const Box&) = default;
};

/// What of a file's image is wanted, and how.
struct DecodeOptions {
  int64_t channels = 3;    ///< 1 or 3: gray is replicated, colour becomes luma, alpha is dropped
  bool apply_exif = true;  ///< turn the image as its EXIF orientation says
  /// The part that is wanted, asked once the size of the whole (turned) image is known; empty: all of it. The pixels are
  /// those that a crop of the whole image has.
  std::function<Box(int64_t height, int64_t width)> region{};
  /// What the part is resampled to afterwards; empty: unknown. If it is given, a JPEG's part may then come at 1/2 or 1/4 of its size
  /// (`shrink_for`), its edges at the nearest pixels: other pixels, in less time.
  Size target{};
};

}  // namespace reprise::io
