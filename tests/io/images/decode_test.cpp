// Decoding: pixels are Pillow's to the bit, those of a region are the whole image's, other files are Errors.
#include "reprise/io/images/decode.h"

#include <gtest/gtest.h>

#include <random>

#include "reprise/io/images/jpeg.h"
#include "reprise/io/images/png.h"
#include "reprise/tests/io/images/golden_images.h"
#include "reprise/tests/io/temp_folder.h"

namespace reprise::io {
namespace {

using reprise::testing::cropped;
using reprise::testing::decoded;
using reprise::testing::expect_error;
using reprise::testing::expect_same_image;
using reprise::testing::GoldenImages;

TEST(Decode, IsPillowsToTheBit) {
  GoldenImages golden;
  ASSERT_EQ(golden.names().size(), 27u);
  for (const std::string& name : golden.names()) {
    std::string file = golden.file(name);
    expect_same_image(decoded(file), golden.image(name + ".rgb"), name);
    expect_same_image(decoded(file, {.channels = 1}), golden.image(name + ".gray"), name);
    bool is_turned = name.starts_with("exif");
    expect_same_image(decoded(file, {.apply_exif = false}),
                      golden.image(name + (is_turned ? ".stored" : ".rgb")), name);
  }
}

TEST(Decode, RegionIsTheWholeImages) {
  GoldenImages golden;
  std::mt19937 random(7);
  for (const std::string& name : golden.names()) {
    std::string file = golden.file(name);
    Image whole = golden.image(name + ".rgb");
    for (int i = 0; i < 500; ++i) {
      Box box;
      box.height = 1 + int64_t(random() % whole.height), box.width = 1 + int64_t(random() % whole.width);
      box.top = int64_t(random() % (whole.height - box.height + 1));
      box.left = int64_t(random() % (whole.width - box.width + 1));
      auto region = [&](int64_t height, int64_t width) {
        EXPECT_EQ(height, whole.height);
        EXPECT_EQ(width, whole.width);
        return box;
      };
      expect_same_image(decoded(file, {.region = region}), cropped(whole, box), name);
      if (HasFailure())
        FAIL() << name << ": " << box.top << ' ' << box.left << ' ' << box.height << ' ' << box.width;
    }
  }
}

TEST(Decode, RegionOutsideIsAnError) {
  GoldenImages golden;
  auto region = [](int64_t height, int64_t width) { return Box{0, 1, height, width}; };
  for (const char* name : {"jpeg_420", "png_gray_4"})
    expect_error([&] { decoded(golden.file(name), {.region = region}); },
                 "decode: x: the region of 37 x 51 at row 0, column 1 is not inside the image of 37 x 51");
}

TEST(Decode, UsesAnImagesMemoryAgain) {
  GoldenImages golden;
  Image image;
  decode_image(golden.file("jpeg_420"), "x", {}, image);
  const uint8_t* memory = image.pixels.data();
  decode_image(golden.file("png_palette_4"), "x", {.channels = 1}, image);
  EXPECT_EQ(image.pixels.data(), memory);
  expect_same_image(image, golden.image("png_palette_4.gray"), "png_palette_4");
}

TEST(Decode, GoesByTheBytesNotTheName) {
  GoldenImages golden;
  reprise::testing::TempFolder folder;
  Image image;
  read_image(folder.write("a.JPEG", golden.file("png_rgb_alpha")), {}, image);
  expect_same_image(image, golden.image("png_rgb_alpha.rgb"), "a.JPEG");
}

TEST(Decode, OtherFormatsAreNamed) {
  auto refuses = [](std::string file, const std::string& format) {
    expect_error([&] { decoded(file); },
                 "decode: x: is a " + format + " image, which is not read: convert it");
  };
  refuses("RIFF1234WEBPVP8 ", "WebP");
  refuses("GIF89a", "GIF");
  refuses("BM\x46\x01", "BMP");
  refuses(std::string("II*\0\x08", 5), "TIFF");
  refuses(std::string("MM\0*\0", 5), "TIFF");
  refuses(std::string("\0\0\0\x1c", 4) + "ftypheic", "HEIC");
  refuses(std::string("\0\0\0\x1c", 4) + "ftypavif", "AVIF");
  expect_error([] { decoded(""); }, "decode: x: the file is empty");
  expect_error([] { decoded("hello"); },
               "decode: x: is neither JPEG nor PNG: its first bytes are 68 65 6c 6c");
}

TEST(Decode, JpegComesBackNearly) {
  Image image;
  image.resize(30, 40, 3);
  for (int64_t i = 0; i < 30 * 40; ++i) {
    int64_t y = i / 40, x = i % 40;
    image.pixels[size_t(3 * i)] = uint8_t(6 * x), image.pixels[size_t(3 * i + 1)] = uint8_t(8 * y);
    image.pixels[size_t(3 * i + 2)] = 100;
  }
  Image again = decoded(encode_jpeg(image, 95));
  ASSERT_EQ(again.pixels.size(), image.pixels.size());
  double sum = 0;
  for (size_t i = 0; i < image.pixels.size(); ++i)
    sum += std::abs(int(again.pixels[i]) - int(image.pixels[i]));
  EXPECT_LT(sum / double(image.pixels.size()),
            2);  // a slope of 8 a pixel, whose colour is stored for each second
  EXPECT_GT(sum, 0);
  EXPECT_LT(encode_jpeg(image, 20).size(), encode_jpeg(image, 95).size());
  expect_error([&] { encode_jpeg(image, 0); }, "encode: the quality of a JPEG must be 1 to 100, not 0");
}

TEST(Decode, PngComesBack) {
  GoldenImages golden;
  for (const char* key : {"jpeg_420.rgb", "jpeg_420.gray"}) {
    Image image = golden.image(key);
    std::string file = encode_png(image);
    expect_same_image(decoded(file, {.channels = image.channels}), image, key);
  }
}

}  // namespace
}  // namespace reprise::io
