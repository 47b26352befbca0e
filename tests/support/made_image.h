// Images made by formulas, the same as in tools/make_transform_goldens.py, and the goldens that Pillow made of them.
#pragma once

#include <algorithm>
#include <string>

#include "reprise/core/tensor.h"
#include "reprise/io/images/image.h"
#include "reprise/io/safetensors.h"
#include "reprise/tests/support/golden.h"

namespace reprise::testing {

/// Noise on two thirds of the diagonals, a slope on the rest.
inline io::Image made_image(int64_t height, int64_t width, int64_t channels) {
  io::Image image;
  image.resize(height, width, channels);
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (int64_t c = 0; c < channels; ++c) {
        const uint32_t mixed = uint32_t(y) * 73856093u ^ uint32_t(x) * 19349663u ^ uint32_t(c) * 83492791u;
        const int64_t slope = 255 * x / std::max<int64_t>(width - 1, 1) + 3 * y + 40 * c;
        image.row(y)[x * channels + c] =
            (x + y) % 3 == 0 ? uint8_t(slope) : uint8_t(mixed * 2654435761u >> 24);
      }
  return image;
}

/// Few values and little contrast.
inline io::Image dull_image(int64_t height, int64_t width, int64_t channels) {
  io::Image image = made_image(height, width, channels);
  for (uint8_t& value : image.pixels) value = uint8_t(value / 16 * 5 + 60);
  return image;
}

inline const io::SafetensorsFile& transform_goldens() {
  static const io::SafetensorsFile file(golden_path("transforms.safetensors"));
  return file;
}

/// A golden image (H, W, C).
inline io::Image golden_image(const std::string& key) {
  const Tensor tensor = transform_goldens().read(key);
  io::Image image{tensor.size(0), tensor.size(1), tensor.size(2), tensor.to_vector<uint8_t>()};
  return image;
}

/// Rows of golden integers.
inline std::vector<std::vector<int64_t>> golden_rows(const std::string& key) {
  const Tensor tensor = transform_goldens().read(key);
  const auto values = tensor.to_vector<int64_t>();
  std::vector<std::vector<int64_t>> rows;
  for (int64_t row = 0; row < tensor.size(0); ++row)
    rows.emplace_back(values.begin() + row * tensor.size(1), values.begin() + (row + 1) * tensor.size(1));
  return rows;
}

}  // namespace reprise::testing
