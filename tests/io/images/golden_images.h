// The files of tests/golden/images.safetensors (tools/make_images.py) and the pixels that Pillow decodes them to.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "reprise/io/images/decode.h"
#include "reprise/io/safetensors.h"
#include "reprise/tests/support/golden.h"

namespace reprise::testing {

class GoldenImages {
 public:
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const io::SafetensorInfo& info : file_.tensors())
      if (info.name.ends_with(".file")) out.push_back(info.name.substr(0, info.name.size() - 5));
    return out;
  }

  std::string file(const std::string& name) const {
    Tensor bytes = file_.read(name + ".file");
    return std::string(reinterpret_cast<const char*>(bytes.data<uint8_t>()), size_t(bytes.numel()));
  }

  /// Pixels of `key`: NAME.rgb, NAME.gray, NAME.stored.
  io::Image image(const std::string& key) const {
    Tensor pixels = file_.read(key);
    io::Image image;
    image.resize(pixels.size(0), pixels.size(1), pixels.rank() == 3 ? 3 : 1);
    std::copy_n(pixels.data<uint8_t>(), image.pixels.size(), image.pixels.data());
    return image;
  }

 private:
  io::SafetensorsFile file_{golden_path("images.safetensors")};
};

inline io::Image decoded(const std::string& file, const io::DecodeOptions& options = {}) {
  io::Image image;
  io::decode_image(file, "x", options, image);
  return image;
}

inline io::Image cropped(const io::Image& whole, io::Box box) {
  io::Image out;
  out.resize(box.height, box.width, whole.channels);
  for (int64_t y = 0; y < box.height; ++y)
    std::copy_n(whole.row(box.top + y) + box.left * whole.channels, out.row_bytes(), out.row(y));
  return out;
}

/// Expects every pixel of `got` to be that of `want`; says where the first other one is.
inline void expect_same_image(const io::Image& got, const io::Image& want, const std::string& name) {
  ASSERT_EQ(got.height, want.height) << name;
  ASSERT_EQ(got.width, want.width) << name;
  ASSERT_EQ(got.channels, want.channels) << name;
  auto [here, there] = std::mismatch(got.pixels.begin(), got.pixels.end(), want.pixels.begin());
  if (here == got.pixels.end()) return;
  int64_t at = (here - got.pixels.begin()) / got.channels;
  ADD_FAILURE() << name << ": row " << at / got.width << ", column " << at % got.width << ": got "
                << int(*here) << ", want " << int(*there);
}

}  // namespace reprise::testing
