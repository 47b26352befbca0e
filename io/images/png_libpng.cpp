// PNG by libpng. What `guarded` runs owns nothing with a destructor: errors jump out of it.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <vector>

#include "reprise/core/error.h"
#include "reprise/io/images/cut.h"
#include "reprise/io/images/guarded.h"
#include "reprise/io/images/png.h"

namespace reprise::io {
namespace {

struct PngErrors {
  std::jmp_buf jump;
  char message[256] = "no memory";
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto* errors = static_cast<PngErrors*>(png_get_error_ptr(png));
  std::snprintf(errors->message, sizeof errors->message, "%s", message);
  std::longjmp(errors->jump, 1);
}

void on_warning(png_structp, png_const_charp) {}  // of chunks that no pixel depends on

// What the chunk eXIf says, which may lie before or behind the pixels.
Orientation orientation_of_png(std::string_view bytes) {
  auto* data = reinterpret_cast<png_const_bytep>(bytes.data());
  for (size_t at = 8; at + 12 <= bytes.size();) {  // a chunk: length, name, content, CRC
    size_t length = png_get_uint_32(data + at);
    if (length > bytes.size() - at - 12) break;
    if (bytes.substr(at + 4, 4) == "eXIf") return exif_orientation(bytes.substr(at + 8, length));
    at += 12 + length;
  }
  return {};
}

class PngDecoder {
 public:
  PngDecoder(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}
  ~PngDecoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  void decode(const DecodeOptions& options, Image& image) {
    if (!guarded(errors_.jump, *this, read_header)) fail_damaged();
    int64_t height = png_get_image_height(png_, info_), width = png_get_image_width(png_, info_);
    check_size(height, width, bytes_.size(), name_);
    RowsOfFile rows(options, orientation_of_png(bytes_), height, width, name_, image);
    rows_ = &rows;
    is_gray_ = (png_get_color_type(png_, info_) & PNG_COLOR_MASK_COLOR) == 0;
    bool is_interlaced = png_get_interlace_type(png_, info_) != PNG_INTERLACE_NONE;
    pixels_.resize(size_t(width * (is_gray_ ? 1 : 3) * (is_interlaced ? height : 1)));
    if (!guarded(errors_.jump, *this, is_interlaced ? read_interlaced : read_rows)) fail_damaged();
    rows.finish();
  }

 private:
  static void read_header(PngDecoder& d) {
    d.png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &d.errors_, on_error, on_warning);
    if (d.png_ != nullptr) d.info_ = png_create_info_struct(d.png_);
    if (d.info_ == nullptr) std::longjmp(d.errors_.jump, 1);
    png_set_user_limits(d.png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);             // check_size has others
    png_set_keep_unknown_chunks(d.png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);  // text, profiles, times
    png_set_read_fn(d.png_, &d, read_bytes);
    png_read_info(d.png_, d.info_);
  }

  static void read_bytes(png_structp png, png_bytep out, size_t count) {
    auto& d = *static_cast<PngDecoder*>(png_get_io_ptr(png));
    if (count > d.bytes_.size() - d.taken_) png_error(png, "the file ends early");
    std::memcpy(out, d.bytes_.data() + d.taken_, count);
    d.taken_ += count;
  }

  // Every kind of pixel becomes one or three bytes.
  static void start(PngDecoder& d) {
    int colour_type = png_get_color_type(d.png_, d.info_);
    if (png_get_bit_depth(d.png_, d.info_) == 16) png_set_scale_16(d.png_);
    if (colour_type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(d.png_);
    if (colour_type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(d.png_);
    png_set_strip_alpha(d.png_);
    png_set_interlace_handling(d.png_);
    png_read_update_info(d.png_, d.info_);
    if (png_get_rowbytes(d.png_, d.info_) != d.row_bytes())
      png_error(d.png_, "its rows have an unforeseen size");
  }

  static void read_rows(PngDecoder& d) {
    start(d);
    const Box& box = d.rows_->box();
    for (int64_t y = 0; y < box.top + box.height; ++y) {
      png_read_row(d.png_, d.pixels_.data(), nullptr);
      if (y >= box.top) d.put(y - box.top, d.pixels_.data());
    }
    if (box.top + box.height == png_get_image_height(d.png_, d.info_)) png_read_end(d.png_, nullptr);
  }

  static void read_interlaced(PngDecoder& d) {
    start(d);
    int64_t height = png_get_image_height(d.png_, d.info_);
    for (int pass = 0; pass < PNG_INTERLACE_ADAM7_PASSES; ++pass)
      for (int64_t y = 0; y < height; ++y) png_read_row(d.png_, d.row(y), nullptr);
    png_read_end(d.png_, nullptr);
    const Box& box = d.rows_->box();
    for (int64_t y = 0; y < box.height; ++y) d.put(y, d.row(box.top + y));
  }

  size_t row_bytes() const { return size_t(png_get_image_width(png_, info_)) * (is_gray_ ? 1 : 3); }
  uint8_t* row(int64_t y) { return pixels_.data() + size_t(y) * row_bytes(); }
  void put(int64_t y, const uint8_t* whole_row) {
    int64_t channels = is_gray_ ? 1 : 3;
    rows_->put(y, whole_row + rows_->box().left * channels, channels);
  }

  [[noreturn]] void fail_damaged() const {
    fail("decode: ", name_, ": damaged at byte ", taken_, " of ", bytes_.size(), ": ", errors_.message);
  }

  std::string_view bytes_;
  const std::string& name_;
  size_t taken_ = 0;
  PngErrors errors_{};
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  bool is_gray_ = false;
  std::vector<uint8_t> pixels_{};  // a row, or of an interlaced file the image
  RowsOfFile* rows_ = nullptr;
};

class PngEncoder {
 public:
  explicit PngEncoder(const Image& image) : image_(image) {}
  ~PngEncoder() { png_destroy_write_struct(&png_, &info_); }
  PngEncoder(const PngEncoder&) = delete;
  PngEncoder& operator=(const PngEncoder&) = delete;

  std::string encode() {
    check(guarded(errors_.jump, *this, write), "encode: PNG of ", image_.height, " x ", image_.width, ": ",
          errors_.message);
    return std::move(file_);
  }

 private:
  static void write(PngEncoder& e) {
    e.png_ = png_create_write_struct(PNG_LIBPNG_VER_STRING, &e.errors_, on_error, on_warning);
    if (e.png_ != nullptr) e.info_ = png_create_info_struct(e.png_);
    if (e.info_ == nullptr) std::longjmp(e.errors_.jump, 1);
    png_set_write_fn(e.png_, &e, write_bytes, nullptr);
    png_set_IHDR(e.png_, e.info_, png_uint_32(e.image_.width), png_uint_32(e.image_.height), 8,
                 e.image_.channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(e.png_, e.info_);
    for (int64_t y = 0; y < e.image_.height; ++y) png_write_row(e.png_, e.image_.row(y));
    png_write_end(e.png_, nullptr);
  }

  static void write_bytes(png_structp png, png_bytep data, size_t count) {
    auto& file = static_cast<PngEncoder*>(png_get_io_ptr(png))->file_;
    bool has_room = true;
    try {
      file.append(reinterpret_cast<const char*>(data), count);
    } catch (const std::exception&) { has_room = false; }  // nothing may be thrown through libpng
    if (!has_room) png_error(png, "no memory");
  }

  const Image& image_;
  PngErrors errors_{};
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::string file_{};
};

}  // namespace

void decode_png(std::string_view bytes, const std::string& name, const DecodeOptions& options, Image& image) {
  PngDecoder(bytes, name).decode(options, image);
}

std::string encode_png(const Image& image) {
  check(image.channels == 1 || image.channels == 3, "encode: an image has 1 or 3 channels, not ",
        image.channels);
  return PngEncoder(image).encode();
}

}  // namespace reprise::io
