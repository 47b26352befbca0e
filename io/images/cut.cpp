#include "reprise/io/images/cut.h"

#include <cstring>
#include <initializer_list>

#include "reprise/core/error.h"

namespace reprise::io {
namespace {

// The pixels of an image divided by `shrink` that are nearest to those of the box.
Box divided(const Box& box, int64_t shrink) {
  auto nearest = [&](int64_t edge) { return (edge + shrink / 2) / shrink; };
  const int64_t top = nearest(box.top), left = nearest(box.left);
  return {top, left, nearest(box.top + box.height) - top, nearest(box.left + box.width) - left};
}

}  // namespace

void convert_row(const uint8_t* from, int64_t from_channels, int64_t width, uint8_t* to,
                 int64_t to_channels) {
  if (from_channels == to_channels) {
    std::memcpy(to, from, size_t(width * to_channels));
  } else if (from_channels == 1) {
    for (int64_t x = 0; x < width; ++x) to[3 * x] = to[3 * x + 1] = to[3 * x + 2] = from[x];
  } else {
    for (int64_t x = 0; x < width; ++x, from += 3)
      to[x] = uint8_t((19595u * from[0] + 38470u * from[1] + 7471u * from[2] + 32768u) >> 16);
  }
}

Box wanted_box(const DecodeOptions& options, int64_t height, int64_t width, const std::string& name) {
  check(options.channels == 1 || options.channels == 3, "decode: channels must be 1 or 3, not ",
        options.channels);
  if (!options.region) return {0, 0, height, width};
  Box box = options.region(height, width);
  bool is_inside = box.top >= 0 && box.left >= 0 && box.height > 0 && box.width > 0 &&
                   box.height <= height - box.top && box.width <= width - box.left;
  check(is_inside, "decode: ", name, ": the region of ", box.height, " x ", box.width, " at row ", box.top,
        ", column ", box.left, " is not inside the image of ", height, " x ", width);
  return box;
}

int64_t shrink_for(const Box& part, Size target) {
  if (target.height <= 0 || target.width <= 0) return 1;
  for (int64_t shrink : {4, 2})
    if (part.height / (2 * shrink) >= target.height && part.width / (2 * shrink) >= target.width)
      return shrink;
  return 1;
}

void check_size(int64_t height, int64_t width, size_t file_bytes, const std::string& name) {
  constexpr int64_t most_pixels = 178'956'970;
  // PNG: deflate makes at most 1,032 bytes of one, and eight pixels are a byte. JPEG: a bit says 32 x 32 pixels.
  constexpr int64_t most_pixels_per_byte = 8 * 1032;
  check(height > 0 && width > 0, "decode: ", name, ": its image is ", height, " x ", width, " pixels");
  check(height <= most_pixels / width, "decode: ", name, ": its image is ", height, " x ", width,
        " pixels; at most ", most_pixels, " are read");
  check(height * width / most_pixels_per_byte <= int64_t(file_bytes), "decode: ", name, ": damaged: its ",
        file_bytes, " bytes cannot hold ", height, " x ", width, " pixels");
}

RowsOfFile::RowsOfFile(const DecodeOptions& options, Orientation orientation, int64_t height, int64_t width,
                       const std::string& name, Image& image, Scales scales)
    : orientation_(options.apply_exif ? orientation : Orientation{}), image_(image) {
  bool swaps = orientation_.swaps;
  Box upright = wanted_box(options, swaps ? width : height, swaps ? height : width, name);
  shrink_ = scales == Scales::divided ? shrink_for(upright, options.target) : 1;
  box_ = divided(stored_box(orientation_, upright, height, width), shrink_);
  stored().resize(box_.height, box_.width, options.channels);
}

void RowsOfFile::finish() {
  if (!orientation_.is_upright()) turn_upright(turned_, orientation_, image_);
}

void cut_image(const uint8_t* pixels, int64_t height, int64_t width, int64_t channels,
               const DecodeOptions& options, const std::string& name, Image& image) {
  Box box = wanted_box(options, height, width, name);
  image.resize(box.height, box.width, options.channels);
  for (int64_t y = 0; y < box.height; ++y) {
    const uint8_t* from = pixels + ((box.top + y) * width + box.left) * channels;
    convert_row(from, channels, box.width, image.row(y), options.channels);
  }
}

}  // namespace reprise::io
