#include "reprise/io/images/decode.h"

#include <algorithm>
#include <iomanip>

#include "reprise/core/error.h"
#include "reprise/io/file.h"
#include "reprise/io/images/jpeg.h"
#include "reprise/io/images/png.h"

namespace reprise::io {
namespace {

using namespace std::string_view_literals;

struct Magic {
  const char* format;
  size_t offset;
  std::string_view bytes;
};

// Formats that are not read: their names help more than their bytes.
constexpr Magic others[] = {
    {"WebP", 8, "WEBP"sv},        {"GIF", 0, "GIF8"sv},      {"TIFF", 0, "II*\0"sv},
    {"TIFF", 0, "MM\0*"sv},       {"AVIF", 4, "ftypavif"sv}, {"AVIF", 4, "ftypavis"sv},
    {"HEIC", 4, "ftyphe"sv},      {"HEIC", 4, "ftypmif1"sv}, {"HEIC", 4, "ftypmsf1"sv},
    {"JPEG XL", 0, "\xff\x0a"sv}, {"JPEG XL", 4, "JXL "sv},  {"JPEG 2000", 4, "jP  "sv},
    {"BMP", 0, "BM"sv},
};

[[noreturn]] void refuse(std::string_view bytes, const std::string& name) {
  check(!bytes.empty(), "decode: ", name, ": the file is empty");
  for (const Magic& magic : others)
    check(!bytes.substr(std::min(magic.offset, bytes.size())).starts_with(magic.bytes), "decode: ", name,
          ": is a ", magic.format, " image, which is not read: convert it to PNG or JPEG");
  TextStream front;
  front << std::hex << std::setfill('0');
  for (unsigned char byte : bytes.substr(0, 4)) front << ' ' << std::setw(2) << int(byte);
  fail("decode: ", name, ": is neither JPEG nor PNG: its first bytes are", front.str());
}

}  // namespace

ImageFormat image_format(std::string_view bytes, const std::string& name) {
  if (is_jpeg(bytes)) return ImageFormat::jpeg;
  if (is_png(bytes)) return ImageFormat::png;
  refuse(bytes, name);
}

void decode_image(std::string_view bytes, const std::string& name, const DecodeOptions& options,
                  Image& image) {
  if (image_format(bytes, name) == ImageFormat::jpeg)
    decode_jpeg(bytes, name, options, image);
  else
    decode_png(bytes, name, options, image);
}

void read_image(const std::string& path, const DecodeOptions& options, Image& image) {
  decode_image(read_file(path), path, options, image);
}

}  // namespace reprise::io
