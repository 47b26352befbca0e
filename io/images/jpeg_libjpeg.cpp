// JPEG by libjpeg-turbo. What `guarded` runs owns nothing with a destructor: errors jump out of it.
#include <csetjmp>
#include <cstdio>
// jpeglib.h needs <cstdio> before it.
#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "reprise/core/error.h"
#include "reprise/io/images/cut.h"
#include "reprise/io/images/guarded.h"
#include "reprise/io/images/jpeg.h"

namespace reprise::io {
namespace {

constexpr int most_scans = 500;  // a progressive file has about ten; each costs a pass over the whole image

struct JpegErrors {
  jpeg_error_mgr manager;  // first, so that libjpeg's pointer to it is a pointer to this
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void on_error(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->message);
  std::longjmp(errors->jump, 1);
}

// Warnings have level -1. Those of lost data are damage; others tell of habits of cameras.
void on_message(j_common_ptr info, int level) {
  int code = info->err->msg_code;
  bool is_harmless = code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM ||
                     code == JWRN_BOGUS_ICC;
  if (level < 0 && !is_harmless) on_error(info);
}

void on_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= most_scans) return;
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  std::snprintf(errors->message, sizeof errors->message, "it has more than %d scans", most_scans);
  std::longjmp(errors->jump, 1);
}

jpeg_error_mgr* use(JpegErrors& errors) {
  jpeg_error_mgr* manager = jpeg_std_error(&errors.manager);
  manager->error_exit = on_error;
  manager->emit_message = on_message;
  manager->output_message = [](j_common_ptr) {};
  return manager;
}

// Pixel by pixel C, M, Y, K as Adobe stores them, inverted, to red, green, blue in place, rounded as Pillow does.
void rgb_of_inverted_cmyk(uint8_t* pixels, int64_t width) {
  auto product = [](int a, int b) {  // round(a b / 255)
    int value = a * b + 128;
    return (value + (value >> 8)) >> 8;
  };
  for (int64_t x = 0; x < width; ++x) {
    int black = pixels[4 * x + 3];  // 255 - K of the ink
    for (int c = 0; c < 3; ++c)
      pixels[3 * x + c] = uint8_t(std::clamp(black - product(255 - pixels[4 * x + c], black), 0, 255));
  }
}

class JpegDecoder {
 public:
  JpegDecoder(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}
  ~JpegDecoder() { jpeg_destroy_decompress(&info_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  void decode(const DecodeOptions& options, Image& image) {
    if (!guarded(errors_.jump, *this, read_header)) fail_damaged();
    check_kind();
    check_size(info_.image_height, info_.image_width, bytes_.size(), name_);
    RowsOfFile rows(options, orientation(), info_.image_height, info_.image_width, name_, image,
                    Scales::divided);
    row_.resize(size_t(info_.image_width) * size_t(info_.num_components));
    rows_ = &rows;
    if (!guarded(errors_.jump, *this, read_rows)) fail_damaged();
    rows.finish();
  }

 private:
  static void read_header(JpegDecoder& d) {
    d.info_.err = use(d.errors_);
    jpeg_create_decompress(&d.info_);
    d.progress_.progress_monitor = on_progress;
    d.info_.progress = &d.progress_;
    jpeg_save_markers(&d.info_, JPEG_APP0 + 1, 0xFFFF);  // EXIF
    jpeg_mem_src(&d.info_, reinterpret_cast<const unsigned char*>(d.bytes_.data()), d.bytes_.size());
    jpeg_read_header(&d.info_, TRUE);
    if (d.info_.num_components == 3) d.info_.out_color_space = JCS_RGB;
    if (d.info_.num_components == 4) d.info_.out_color_space = JCS_CMYK;
  }

  // Note [One pixel more]
  // Smooth upsampling of colour looks at the neighbouring pixel. At the edge of the decoded columns it has none and takes the
  // pixel itself: so a region is decoded with one column more on each side, which are dropped. Of less than three columns of
  // colour nothing is smoothed: so at least 16 columns are decoded. Skipped rows libjpeg knows the neighbours of.
  static void read_rows(JpegDecoder& d) {
    j_decompress_ptr info = &d.info_;
    const Box& box = d.rows_->box();
    info->scale_num = 1, info->scale_denom = unsigned(d.rows_->shrink());
    jpeg_start_decompress(info);
    JDIMENSION left = 0, width = info->output_width;
    if (!jpeg_has_multiple_scans(info) && (box.width < width || box.height < info->output_height)) {
      const int64_t fewest = 16, all = width;
      left = JDIMENSION(std::max<int64_t>(std::min(box.left - 1, all - fewest), 0));
      auto right = JDIMENSION(std::min(std::max(box.left + box.width + 1, left + fewest), all));
      width = right - left;
      jpeg_crop_scanline(info, &left, &width);  // moves left to where a block begins
      jpeg_skip_scanlines(info, JDIMENSION(box.top));
    }
    JSAMPROW row = d.row_.data();
    int64_t channels = std::min(info->num_components, 3);
    while (info->output_scanline < box.top + box.height) {
      int64_t y = info->output_scanline - box.top;
      jpeg_read_scanlines(info, &row, 1);
      if (y < 0) continue;
      if (info->num_components == 4) rgb_of_inverted_cmyk(row, info->output_width);
      d.rows_->put(y, row + (box.left - left) * channels, channels);
    }
    if (info->output_scanline == info->output_height) jpeg_finish_decompress(info);
  }

  void check_kind() const {
    check(!info_.arith_code, "decode: ", name_, ": is an arithmetic-coded JPEG, ", what_helps);
    int components = info_.num_components;
    check(components == 1 || components == 3 || components == 4, "decode: ", name_, ": is a JPEG of ",
          components, " colours, ", what_helps);
  }

  Orientation orientation() const {
    for (auto* marker = info_.marker_list; marker != nullptr; marker = marker->next) {
      std::string_view data(reinterpret_cast<const char*>(marker->data), marker->data_length);
      if (data.starts_with(std::string_view("Exif\0\0", 6))) return exif_orientation(data.substr(6));
    }
    return {};
  }

  [[noreturn]] void fail_damaged() const {
    int code = errors_.manager.msg_code;
    check(code != JERR_BAD_PRECISION, "decode: ", name_, ": is a JPEG of other than 8 bits, ", what_helps);
    check(code != JERR_SOF_UNSUPPORTED, "decode: ", name_, ": is a lossless or hierarchical JPEG, ",
          what_helps);
    size_t left = info_.src == nullptr ? bytes_.size() : info_.src->bytes_in_buffer;
    fail("decode: ", name_, ": damaged at byte ", bytes_.size() - left, " of ", bytes_.size(), ": ",
         errors_.message);
  }

  static constexpr const char* what_helps = "which is not read: convert it to a baseline JPEG or to PNG";

  std::string_view bytes_;
  const std::string& name_;
  JpegErrors errors_{};
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct info_{};
  std::vector<uint8_t> row_{};
  RowsOfFile* rows_ = nullptr;
};

class JpegEncoder {
 public:
  JpegEncoder(const Image& image, int quality) : image_(image), quality_(quality) {}
  ~JpegEncoder() {
    jpeg_destroy_compress(&info_);
    std::free(file_);
  }
  JpegEncoder(const JpegEncoder&) = delete;
  JpegEncoder& operator=(const JpegEncoder&) = delete;

  std::string encode() {
    check(guarded(errors_.jump, *this, write), "encode: JPEG of ", image_.height, " x ", image_.width, ": ",
          errors_.message);
    return std::string(reinterpret_cast<const char*>(file_), bytes_);
  }

 private:
  static void write(JpegEncoder& e) {
    j_compress_ptr info = &e.info_;
    info->err = use(e.errors_);
    jpeg_create_compress(info);
    jpeg_mem_dest(info, &e.file_, &e.bytes_);
    info->image_height = JDIMENSION(e.image_.height);
    info->image_width = JDIMENSION(e.image_.width);
    info->input_components = int(e.image_.channels);
    info->in_color_space = e.image_.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(info);
    jpeg_set_quality(info, e.quality_, TRUE);
    jpeg_start_compress(info, TRUE);
    for (int64_t y = 0; y < e.image_.height; ++y) {
      auto* row = const_cast<JSAMPROW>(e.image_.row(y));
      jpeg_write_scanlines(info, &row, 1);
    }
    jpeg_finish_compress(info);
  }

  const Image& image_;
  int quality_;
  JpegErrors errors_{};
  jpeg_compress_struct info_{};
  unsigned char* file_ = nullptr;
  unsigned long bytes_ = 0;
};

}  // namespace

void decode_jpeg(std::string_view bytes, const std::string& name, const DecodeOptions& options,
                 Image& image) {
  JpegDecoder(bytes, name).decode(options, image);
}

std::string encode_jpeg(const Image& image, int quality) {
  check(quality >= 1 && quality <= 100, "encode: the quality of a JPEG must be 1 to 100, not ", quality);
  check(image.channels == 1 || image.channels == 3, "encode: an image has 1 or 3 channels, not ",
        image.channels);
  return JpegEncoder(image, quality).encode();
}

}  // namespace reprise::io
