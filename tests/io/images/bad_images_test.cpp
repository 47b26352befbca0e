// Damaged image files: each is an Error that names the file, or an image; never a crash, and nothing large is allocated.
#include <gtest/gtest.h>

#include <random>

#include "reprise/io/images/decode.h"
#include "reprise/tests/io/images/golden_images.h"
#include "reprise/tests/support/errors.h"

namespace reprise::io {
namespace {

using reprise::testing::error_of;
using reprise::testing::expect_error;
using reprise::testing::expect_same_image;
using reprise::testing::GoldenImages;

Image decoded(const std::string& file) {
  Image image;
  decode_image(file, "x.file", {}, image);
  return image;
}

// CRC-32 of a PNG chunk's name and content, by its definition.
uint32_t crc32(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (unsigned char byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0xEDB88320 : crc >> 1;
  }
  return ~crc;
}

std::string big_endian(uint32_t value, int bytes) {
  std::string out;
  for (int i = bytes - 1; i >= 0; --i) out += char(value >> 8 * i);
  return out;
}

// The file with other sizes in its header.
std::string png_of_size(std::string file, uint32_t width, uint32_t height) {
  file.replace(16, 8, big_endian(width, 4) + big_endian(height, 4));
  return file.replace(29, 4, big_endian(crc32(std::string_view(file).substr(12, 17)), 4));
}

size_t frame_of(const std::string& jpeg) { return jpeg.find("\xff\xc0"); }

std::string jpeg_of_size(std::string file, uint32_t width, uint32_t height) {
  return file.replace(frame_of(file) + 5, 4, big_endian(height, 2) + big_endian(width, 2));
}

TEST(BadImages, CutOffIsAnError) {
  GoldenImages golden;
  for (const std::string& name : golden.names()) {
    std::string file = golden.file(name);
    for (size_t size = file.size() - 1; size < file.size(); size -= 97) {
      std::string message = error_of([&] { decoded(file.substr(0, size)); });
      EXPECT_TRUE(message.starts_with("decode: x.file: ")) << name << " of " << size << ": " << message;
      bool tells_place = message.find(" of " + std::to_string(size)) != std::string::npos;
      EXPECT_TRUE(tells_place || size < 97) << name << ": " << message;
    }
  }
}

TEST(BadImages, ChangedBytesGiveAnErrorOrAnImage) {
  GoldenImages golden;
  std::mt19937 random(1);
  for (const std::string& name : golden.names()) {
    std::string file = golden.file(name);
    int errors = 0;
    for (int i = 0; i < 200; ++i) {
      std::string damaged = file;
      damaged[random() % file.size()] = char(random());
      try {
        Image image = decoded(damaged);
        EXPECT_EQ(image.pixels.size(), size_t(image.height * image.width * 3)) << name;
      } catch (const Error& error) {
        ++errors;
        EXPECT_TRUE(std::string_view(error.what()).starts_with("decode: x.file: "))
            << name << ": " << error.what();
      }
    }
    bool has_checksums = name.find("png") != std::string::npos;
    EXPECT_GT(errors, has_checksums ? 190 : 0) << name;
  }
}

TEST(BadImages, SizesAreCheckedBeforeMemoryIsTaken) {
  GoldenImages golden;
  std::string png = golden.file("png_gray_4"), jpeg = golden.file("jpeg_444");
  expect_error([&] { decoded(png_of_size(png, 0x7FFFFFFF, 0x7FFFFFFF)); },
               "decode: x.file: its image is 2147483647 x 2147483647 pixels; at most 178956970 are read");
  expect_error([&] { decoded(jpeg_of_size(jpeg, 65500, 65500)); }, "65500 x 65500 pixels; at most 178956970");
  expect_error([&] { decoded(png_of_size(png, 13000, 13000)); }, "bytes cannot hold 13000 x 13000 pixels");
  expect_error([&] { decoded(jpeg_of_size(jpeg, 13000, 13000)); }, "bytes cannot hold 13000 x 13000 pixels");
  expect_error([&] { decoded(png_of_size(png, 0, 37)); }, "decode: x.file: damaged at byte");
  expect_error([&] { decoded(jpeg_of_size(jpeg, 0, 37)); }, "decode: x.file: damaged at byte");
}

TEST(BadImages, KindsOfJpegThatAreNotReadSaySo) {
  GoldenImages golden;
  auto changed = [&](size_t at, char byte) {
    std::string file = golden.file("jpeg_444");
    file[frame_of(file) + at] = byte;
    return file;
  };
  expect_error([&] { decoded(changed(1, '\xc9')); }, "is an arithmetic-coded JPEG",
               "convert it to a baseline JPEG");
  expect_error([&] { decoded(changed(1, '\xc3')); }, "is a lossless or hierarchical JPEG", "convert it");
  expect_error([&] { decoded(changed(4, 12)); }, "is a JPEG of other than 8 bits", "convert it");
}

// An image of 8 x 8 gray pixels whose three colours are written again and again, a scan each.
std::string jpeg_of_scans(int scans) {
  std::string file = "\xff\xd8\xff\xdb" + big_endian(67, 2) + std::string(1, '\0') + std::string(64, '\1');
  file += "\xff\xc0" + big_endian(17, 2) + '\x08' + big_endian(8, 2) + big_endian(8, 2) + '\x03';
  for (char colour : {'\1', '\2', '\3'}) file += colour + std::string("\x11\0", 2);
  for (char table : {'\0', '\x10'})  // one code, of one bit: a difference of 0, the end of a block
    file += "\xff\xc4" + big_endian(20, 2) + table + '\1' + std::string(15, '\0') + '\0';
  for (int i = 0; i < scans; ++i)
    file += "\xff\xda" + big_endian(8, 2) + '\1' + char(1 + i % 3) + std::string("\0\0\x3f\0", 4) + '\x3f';
  return file + "\xff\xd9";
}

TEST(BadImages, MoreThan500ScansAreAnError) {
  EXPECT_EQ(decoded(jpeg_of_scans(500)).pixels, std::vector<uint8_t>(8 * 8 * 3, 128));
  expect_error([] { decoded(jpeg_of_scans(501)); }, "decode: x.file: damaged at byte ",
               "it has more than 500 scans");
}

TEST(BadImages, ExtraneousBytesOfAJpegAreNone) {
  GoldenImages golden;
  std::string file = golden.file("jpeg_420");
  file.insert(frame_of(file), "camera");
  expect_same_image(decoded(file), golden.image("jpeg_420.rgb"), "jpeg_420");
}

TEST(BadImages, ChecksumsOfCriticalChunksCount) {
  GoldenImages golden;
  auto changed = [&](const std::string& name, const std::string& chunk, size_t at) {
    std::string file = golden.file(name);
    size_t place = file.find(chunk);
    EXPECT_NE(place, std::string::npos) << name;
    file[place + at] = char(file[place + at] ^ 1);
    return file;
  };
  expect_error([&] { decoded(changed("png_rgb_alpha", "IDAT", 100)); }, "damaged at byte ");
  expect_error([&] { decoded(changed("png_palette_4", "PLTE", 5)); }, "damaged at byte ", "CRC");
  expect_same_image(decoded(changed("png_palette_transparent", "tRNS", 5)),
                    golden.image("png_palette_transparent.rgb"), "png_palette_transparent");
}

TEST(BadImages, BrokenExifIsNoError) {
  GoldenImages golden;
  std::string file = golden.file("exif_6");
  size_t exif = file.find("MM") != std::string::npos ? file.find("MM") : file.find("II*");
  for (auto [at, byte] : {std::pair<size_t, char>{0, 'x'}, {4, '\x7f'}, {8, '\x7f'}, {12, '\x07'}, {19, 9}}) {
    std::string broken = file;
    broken[exif + at] = byte;
    Image image = decoded(broken);
    if (at != 8) expect_same_image(image, golden.image("exif_6.stored"), std::to_string(at));
  }
}

}  // namespace
}  // namespace reprise::io
