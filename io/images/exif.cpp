#include "reprise/io/images/exif.h"

#include <algorithm>

namespace reprise::io {
namespace {

constexpr uint32_t orientation_tag = 0x0112;
constexpr uint32_t short_type = 3, long_type = 4;

// Numbers of a TIFF file, which says itself in which order their bytes are; 0 beyond its end.
class TiffReader {
 public:
  explicit TiffReader(std::string_view bytes) : bytes_(bytes), big_endian_(bytes.starts_with("MM")) {}

  uint32_t number(uint64_t at, int bytes) const {
    if (at + uint64_t(bytes) > bytes_.size()) return 0;
    uint32_t value = 0;
    for (int i = 0; i < bytes; ++i) {
      uint64_t place = big_endian_ ? at + uint64_t(i) : at + uint64_t(bytes - 1 - i);
      value = value << 8 | uint8_t(bytes_[place]);
    }
    return value;
  }

 private:
  std::string_view bytes_;
  bool big_endian_;
};

}  // namespace

Orientation orientation_of(int number) {
  switch (number) {
    case 2:
      return {.mirrors_columns = true};
    case 3:
      return {.mirrors_rows = true, .mirrors_columns = true};
    case 4:
      return {.mirrors_rows = true};
    case 5:
      return {.swaps = true};
    case 6:
      return {.swaps = true, .mirrors_rows = true};
    case 7:
      return {.swaps = true, .mirrors_rows = true, .mirrors_columns = true};
    case 8:
      return {.swaps = true, .mirrors_columns = true};
    default:
      return {};
  }
}

Orientation exif_orientation(std::string_view exif) {
  if (!exif.starts_with(std::string_view("II*\0", 4)) && !exif.starts_with(std::string_view("MM\0*", 4)))
    return {};
  TiffReader tiff(exif);
  uint64_t directory = tiff.number(4, 4);
  uint32_t entries = tiff.number(directory, 2);
  for (uint64_t i = 0; i < entries; ++i) {
    uint64_t entry = directory + 2 + 12 * i;  // tag, type, count, value
    if (tiff.number(entry, 2) != orientation_tag) continue;
    uint32_t type = tiff.number(entry + 2, 2);
    if (type == short_type) return orientation_of(int(tiff.number(entry + 8, 2)));
    if (type == long_type) return orientation_of(int(tiff.number(entry + 8, 4)));
    return {};
  }
  return {};
}

Box stored_box(Orientation orientation, Box upright_box, int64_t height, int64_t width) {
  Box box = upright_box;
  if (orientation.swaps) std::swap(box.top, box.left), std::swap(box.height, box.width);
  if (orientation.mirrors_rows) box.top = height - box.top - box.height;
  if (orientation.mirrors_columns) box.left = width - box.left - box.width;
  return box;
}

void turn_upright(const Image& stored, Orientation orientation, Image& upright) {
  const int64_t channels = stored.channels;
  bool swaps = orientation.swaps;
  upright.resize(swaps ? stored.width : stored.height, swaps ? stored.height : stored.width, channels);
  for (int64_t y = 0; y < upright.height; ++y) {
    for (int64_t x = 0; x < upright.width; ++x) {
      int64_t row = swaps ? x : y, column = swaps ? y : x;
      if (orientation.mirrors_rows) row = stored.height - 1 - row;
      if (orientation.mirrors_columns) column = stored.width - 1 - column;
      std::copy_n(stored.row(row) + column * channels, channels, upright.row(y) + x * channels);
    }
  }
}

}  // namespace reprise::io
