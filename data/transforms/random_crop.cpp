#include "reprise/data/transforms/random_crop.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace reprise::data {
namespace {

/// To the nearest integer, half to even as Python's round.
int64_t rounded(double value) { return int64_t(std::nearbyint(value)); }

}  // namespace

RandomResizedCrop::RandomResizedCrop(RandomResizedCropOptions options) : options_(options) {
  check(options.height > 0 && options.width > 0, "random_resized_crop: a size of (", options.height, ", ",
        options.width, ")");
  check(0 < options.min_scale && options.min_scale <= options.max_scale, "random_resized_crop: a scale from ",
        options.min_scale, " to ", options.max_scale);
  check(0 < options.min_ratio && options.min_ratio <= options.max_ratio, "random_resized_crop: a ratio from ",
        options.min_ratio, " to ", options.max_ratio);
}

io::Box RandomResizedCrop::box(int64_t height, int64_t width, Draws& draws) const {
  const double area = double(height * width);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * draws.uniform(options_.min_scale, options_.max_scale);
    const double ratio = std::exp(draws.uniform(std::log(options_.min_ratio), std::log(options_.max_ratio)));
    const int64_t w = rounded(std::sqrt(target * ratio)), h = rounded(std::sqrt(target / ratio));
    if (w <= 0 || w > width || h <= 0 || h > height) continue;
    const int64_t top = draws.below(height - h + 1), left = draws.below(width - w + 1);
    return {top, left, h, w};
  }
  const double ratio = double(width) / double(height);
  int64_t h = height, w = width;
  if (ratio < options_.min_ratio) h = rounded(double(w) / options_.min_ratio);
  if (ratio > options_.max_ratio) w = rounded(double(h) * options_.max_ratio);
  return {(height - h) / 2, (width - w) / 2, h, w};
}

void RandomResizedCrop::apply_to_part(const Part&, io::Image& image, TransformScratch& scratch) const {
  resize(image, options_.height, options_.width, options_.filter, scratch);
}

std::string RandomResizedCrop::text() const {
  return detail::join("random_resized_crop ", options_.height, " x ", options_.width, " scale ",
                      shortest(options_.min_scale), " to ", shortest(options_.max_scale), " ratio ",
                      shortest(options_.min_ratio), " to ", shortest(options_.max_ratio), ' ',
                      name_of(options_.filter));
}

void pad_image(io::Image& image, int64_t pad, Padding padding, TransformScratch& scratch) {
  if (pad == 0) return;
  const bool reflects = padding == Padding::reflect;
  check(!reflects || pad < std::min(image.height, image.width), "random_crop: an image of (", image.height,
        ", ", image.width, ") cannot be reflected by ", pad, " pixels");
  io::Image& padded = scratch.other;
  padded.resize(image.height + 2 * pad, image.width + 2 * pad, image.channels);
  if (!reflects) std::fill(padded.pixels.begin(), padded.pixels.end(), uint8_t(0));
  auto mirrored = [](int64_t i, int64_t size) { return size - 1 - std::abs(size - 1 - std::abs(i)); };
  for (int64_t y = reflects ? 0 : pad; y < padded.height - (reflects ? 0 : pad); ++y) {
    const uint8_t* from = image.row(mirrored(y - pad, image.height));
    uint8_t* to = padded.row(y);
    std::copy_n(from, image.row_bytes(), to + pad * image.channels);
    for (int64_t x = 0; reflects && x < pad; ++x) {
      std::copy_n(from + (pad - x) * image.channels, image.channels, to + x * image.channels);
      std::copy_n(from + (image.width - 2 - x) * image.channels, image.channels,
                  to + (pad + image.width + x) * image.channels);
    }
  }
  std::swap(image, padded);
}

RandomCrop::RandomCrop(RandomCropOptions options) : options_(options) {
  check(options.height > 0 && options.width > 0 && options.pad >= 0, "random_crop: a crop of (",
        options.height, ", ", options.width, ") with ", options.pad, " pixels around the image");
}

void RandomCrop::apply(io::Image& image, Draws& draws, TransformScratch& scratch) const {
  pad_image(image, options_.pad, options_.padding, scratch);
  check(image.height >= options_.height && image.width >= options_.width, "random_crop: a crop of (",
        options_.height, ", ", options_.width, ") from (", image.height, ", ", image.width,
        "), padding counted");
  const int64_t top = draws.below(image.height - options_.height + 1);
  const int64_t left = draws.below(image.width - options_.width + 1);
  cut(image, {top, left, options_.height, options_.width});
}

std::string RandomCrop::text() const {
  return detail::join("random_crop ", options_.height, " x ", options_.width, " pad ", options_.pad,
                      options_.padding == Padding::zero ? " zero" : " reflect");
}

}  // namespace reprise::data
