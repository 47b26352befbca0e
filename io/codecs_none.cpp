// A build without the libraries of images (REPRISE_IMAGES=OFF): all that needs one is an Error that says so.
#include "reprise/core/error.h"
#include "reprise/io/gzip.h"
#include "reprise/io/images/jpeg.h"
#include "reprise/io/images/png.h"

namespace reprise::io {
namespace {

[[noreturn]] void refuse(const std::string& name, const char* what) {
  fail("decode: ", name, ": this build has no ", what, ": configure it with -DREPRISE_IMAGES=ON");
}

}  // namespace

std::string gunzip(std::string_view, const std::string& name, uint64_t) { refuse(name, "gzip"); }
std::string gunzip_front(std::string_view, const std::string& name, size_t) { refuse(name, "gzip"); }
std::string gzip(std::string_view) { refuse("a file", "gzip"); }

void decode_jpeg(std::string_view, const std::string& name, const DecodeOptions&, Image&) {
  refuse(name, "JPEG");
}
std::string encode_jpeg(const Image&, int) { refuse("an image", "JPEG"); }

void decode_png(std::string_view, const std::string& name, const DecodeOptions&, Image&) {
  refuse(name, "PNG");
}
std::string encode_png(const Image&) { refuse("an image", "PNG"); }

}  // namespace reprise::io
