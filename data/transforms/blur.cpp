#include "reprise/data/transforms/blur.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "reprise/data/transforms/point.h"

namespace reprise::data {
namespace {

/// A box of radius `whole` + a fraction; the weights of a pixel inside it and of the two at its edges, in 2^-24.
struct BoxFilter {
  int64_t whole;
  uint32_t inside, edge;
};

/// The box that, used three times, has the deviation `radius`.
BoxFilter box_for(float radius) {
  const float variance = radius * radius / 3;
  const auto length = float(std::sqrt(12.0 * variance + 1.0));
  const auto whole = float(std::floor((length - 1.0) / 2.0));
  float part = (2 * whole + 1) * (whole * (whole + 1) - 3 * variance);
  part /= 6 * (variance - (whole + 1) * (whole + 1));
  const float box = whole + part;
  const auto inside = uint32_t((1 << 24) / (box * 2 + 1));
  return {int64_t(box), inside, ((1 << 24) - uint32_t(int64_t(box) * 2 + 1) * inside) / 2};
}

uint8_t weighted(uint32_t sum, uint32_t edges, const BoxFilter& box) {
  return uint8_t((sum * box.inside + edges * box.edge + (1 << 23)) >> 24);
}

/// One channel of a row of `width` pixels, blurred once into `to`; beyond its ends the last value goes on.
template <int channels>
void blur_row(const uint8_t* from, int64_t width, const BoxFilter& box, uint8_t* to) {
  auto at = [&](int64_t i) { return uint32_t(from[std::clamp<int64_t>(i, 0, width - 1) * channels]); };
  uint32_t sum = 0;
  for (int64_t i = -box.whole; i <= box.whole; ++i) sum += at(i);
  const int64_t inner = std::clamp<int64_t>(width - box.whole - 1, 0, width),
                begin = std::min(box.whole + 1, inner);
  auto step = [&](int64_t i, uint32_t before, uint32_t first, uint32_t after) {
    to[i * channels] = weighted(sum, before + after, box);
    sum += after - first;
  };
  for (int64_t i = 0; i < begin; ++i)
    step(i, at(i - box.whole - 1), at(i - box.whole), at(i + box.whole + 1));
  const uint8_t *left = from + (begin - box.whole - 1) * channels,
                *right = from + (begin + box.whole + 1) * channels;
  for (int64_t i = begin; i < inner; ++i, left += channels, right += channels)
    step(i, left[0], left[channels], right[0]);
  for (int64_t i = inner; i < width; ++i)
    step(i, at(i - box.whole - 1), at(i - box.whole), at(i + box.whole + 1));
}

/// All columns, blurred once into `to`, row after row.
void blur_columns(const io::Image& from, const BoxFilter& box, io::Image& to, std::vector<uint32_t>& sums) {
  const auto bytes = size_t(from.row_bytes());
  auto row = [&](int64_t y) { return from.row(std::clamp<int64_t>(y, 0, from.height - 1)); };
  sums.assign(bytes, 0);
  for (int64_t y = -box.whole; y <= box.whole; ++y)
    for (size_t j = 0; j < bytes; ++j) sums[j] += row(y)[j];
  for (int64_t y = 0; y < from.height; ++y) {
    const uint8_t *before = row(y - box.whole - 1), *first = row(y - box.whole),
                  *after = row(y + box.whole + 1);
    uint8_t* result = to.row(y);
    uint32_t* sum = sums.data();
    for (size_t j = 0; j < bytes; ++j) {
      result[j] = weighted(sum[j], uint32_t(before[j]) + after[j], box);
      sum[j] += uint32_t(after[j]) - first[j];
    }
  }
}

void blur_rows(const io::Image& from, const BoxFilter& box, io::Image& to) {
  for (int64_t y = 0; y < from.height; ++y)
    if (from.channels == 1)
      blur_row<1>(from.row(y), from.width, box, to.row(y));
    else
      for (int c = 0; c < 3; ++c) blur_row<3>(from.row(y) + c, from.width, box, to.row(y) + c);
}

}  // namespace

void sharpness(io::Image& image, double factor, TransformScratch& scratch) {
  io::Image& smooth = scratch.other;
  smooth.resize(image.height, image.width, image.channels);
  smooth.pixels = image.pixels;
  const int64_t step = image.channels;
  for (int64_t y = 1; y + 1 < image.height; ++y)
    for (int64_t i = step; i + step < image.row_bytes(); ++i) {
      int sum = 4 * image.row(y)[i];
      for (int64_t row = y - 1; row <= y + 1; ++row)
        sum += image.row(row)[i - step] + image.row(row)[i] + image.row(row)[i + step];
      smooth.row(y)[i] = uint8_t((2 * sum + 13) / 26);
    }
  for (size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] = blended(smooth.pixels[i], image.pixels[i], float(factor));
}

void gaussian_blur(io::Image& image, double radius, TransformScratch& scratch) {
  if (radius == 0 || image.pixels.empty()) return;
  const BoxFilter box = box_for(float(radius));
  io::Image& other = scratch.other;
  other.resize(image.height, image.width, image.channels);
  for (int pass = 0; pass < 6; ++pass, std::swap(image, other))
    if (pass < 3)
      blur_rows(image, box, other);
    else
      blur_columns(image, box, other, scratch.sums);
}

void RandomBlur::apply(io::Image& image, Draws& draws, TransformScratch& scratch) const {
  if (draws.chance(options_.probability))
    gaussian_blur(image, draws.uniform(options_.min_radius, options_.max_radius), scratch);
}

std::string RandomBlur::text() const {
  return detail::join("blur ", shortest(options_.probability), " radius ", shortest(options_.min_radius),
                      " to ", shortest(options_.max_radius));
}

}  // namespace reprise::data
