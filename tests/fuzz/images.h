// What the fuzzers of images share: a file is decoded as its first byte says, into at most 1,000 x 1,000 pixels.
#pragma once

#include <algorithm>
#include <cstdlib>

#include "reprise/io/images/cut.h"
#include "reprise/io/images/png.h"
#include "reprise/tests/fuzz/fuzz.h"

namespace reprise::fuzz {

/// Runs `decode(file, name, options, image)`: an image is as large as its region, or as what becomes of it where it is
/// divided; the same when decoded again; and comes back from a PNG.
template <class Decode>
void decodes(const uint8_t* data, size_t bytes, io::Scales scales, Decode decode) {
  if (bytes == 0) return;
  std::string_view file = text_of(data + 1, bytes - 1);
  io::DecodeOptions options{.channels = data[0] & 1 ? 3 : 1, .apply_exif = (data[0] & 2) != 0};
  io::Box asked;
  options.region = [&](int64_t height, int64_t width) {
    check(height <= 1000 && width <= 1000, "fuzz: too large to be quick");
    int64_t part = data[0] >> 2;  // of the image, in 64ths
    asked = {height * part / 64, width * part / 64, 1, 1};
    asked.height = std::max<int64_t>((height - asked.top) / (1 + part % 3), 1);
    asked.width = std::max<int64_t>((width - asked.left) / (1 + part % 2), 1);
    return asked;
  };
  options.target = {data[0] >> 2 & 15, data[0] >> 2 & 7};
  io::Image image, again;
  // Beside the pixels: the coefficients of a progressive JPEG, the whole of an interlaced PNG, the image before it is turned.
  constexpr int64_t beside = int64_t(32) << 20;
  if (!reads(
          bytes, [&] { decode(file, "input", options, image); }, beside))
    return;
  const int64_t shrink = scales == io::Scales::divided ? io::shrink_for(asked, options.target) : 1;
  auto fits = [&](int64_t got, int64_t whole) { return std::abs(got * shrink - whole) < shrink; };
  require(fits(image.height, asked.height) && fits(image.width, asked.width),
          "an image of another size than its region's");
  decode(file, "input", options, again);
  require(again.pixels == image.pixels, "an image that is another one when it is decoded again");
  io::decode_png(io::encode_png(image), "ours", {.channels = image.channels}, again);
  require(again.pixels == image.pixels, "an image that does not come back from a PNG");
}

}  // namespace reprise::fuzz
