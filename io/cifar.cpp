#include "reprise/io/cifar.h"

#include "reprise/core/error.h"

namespace reprise::io {
namespace {

constexpr size_t plane_bytes = cifar_side * cifar_side, image_bytes = 3 * plane_bytes;

}  // namespace

CifarImages parse_cifar(std::string_view bytes, const std::string& name, int labels_per_image) {
  size_t labels = size_t(labels_per_image), record_bytes = labels + image_bytes;
  size_t count = bytes.size() / record_bytes;
  check(count > 0 && bytes.size() % record_bytes == 0, "cifar: ", name, ": wanted whole records of ",
        record_bytes, " bytes, ", bytes.size(), " are there");
  CifarImages out{.images = std::string(count * image_bytes, '\0'), .labels = {}};
  char* to = out.images.data();
  for (size_t i = 0; i < count; ++i) {
    std::string_view record = bytes.substr(i * record_bytes, record_bytes);
    out.labels += record.substr(0, labels);
    for (size_t p = 0; p < plane_bytes; ++p)
      for (size_t c = 0; c < 3; ++c) *to++ = record[labels + c * plane_bytes + p];
  }
  return out;
}

std::string write_cifar(const CifarImages& images, int labels_per_image) {
  size_t labels = size_t(labels_per_image);
  std::string out;
  for (size_t i = 0; (i + 1) * image_bytes <= images.images.size(); ++i) {
    out += images.labels.substr(i * labels, labels);
    for (size_t c = 0; c < 3; ++c)
      for (size_t p = 0; p < plane_bytes; ++p) out += images.images[i * image_bytes + 3 * p + c];
  }
  return out;
}

}  // namespace reprise::io
