#include "reprise/data/transforms/point.h"

#include <algorithm>
#include <array>

namespace reprise::data {
namespace {

using Table = std::array<uint8_t, 256>;
using Histogram = std::array<int64_t, 256>;

template <class Value>
Table table_of(Value&& value) {
  Table table{};
  for (int i = 0; i < 256; ++i) table[size_t(i)] = uint8_t(value(i));
  return table;
}

void look_up(io::Image& image, const Table& table, int64_t channel = 0, int64_t step = 1) {
  for (size_t i = size_t(channel); i < image.pixels.size(); i += size_t(step))
    image.pixels[i] = table[image.pixels[i]];
}

/// Each channel by a table made of its histogram.
template <class TableOf>
void look_up_by_histogram(io::Image& image, TableOf&& table_for) {
  for (int64_t c = 0; c < image.channels; ++c) {
    Histogram counts{};
    for (size_t i = size_t(c); i < image.pixels.size(); i += size_t(image.channels))
      ++counts[image.pixels[i]];
    look_up(image, table_for(counts), c, image.channels);
  }
}

Table stretched(const Histogram& counts) {
  auto nonzero = [](int64_t count) { return count > 0; };
  const auto low = std::find_if(counts.begin(), counts.end(), nonzero) - counts.begin();
  const auto high = 255 - (std::find_if(counts.rbegin(), counts.rend(), nonzero) - counts.rbegin());
  if (high <= low) return table_of([](int i) { return i; });
  const double scale = 255.0 / double(high - low), offset = double(-low) * scale;
  return table_of([&](int i) { return std::clamp(int(double(i) * scale + offset), 0, 255); });
}

Table flattened(const Histogram& counts) {
  int64_t pixels = 0, last = 0;
  for (int64_t count : counts) pixels += count, last = count > 0 ? count : last;
  const int64_t step = (pixels - last) / 255;
  if (step == 0) return table_of([](int i) { return i; });
  int64_t sum = step / 2;
  return table_of([&](int i) {
    const int64_t value = std::min<int64_t>(sum / step, 255);
    sum += counts[size_t(i)];
    return value;
  });
}

}  // namespace

void invert(io::Image& image) {
  look_up(image, table_of([](int i) { return 255 - i; }));
}

void solarize(io::Image& image, double threshold) {
  look_up(image, table_of([&](int i) { return i < threshold ? i : 255 - i; }));
}

void solarize_add(io::Image& image, int amount, int threshold) {
  look_up(image, table_of([&](int i) { return i < threshold ? std::min(i + amount, 255) : i; }));
}

void posterize(io::Image& image, int bits) {
  look_up(image, table_of([&](int i) { return i & (0xff00 >> bits); }));
}

void auto_contrast(io::Image& image) { look_up_by_histogram(image, stretched); }

void equalize(io::Image& image) { look_up_by_histogram(image, flattened); }

void brightness(io::Image& image, double factor) {
  look_up(image, table_of([&](int i) { return blended(0, i, float(factor)); }));
}

void contrast(io::Image& image, double factor) {
  int64_t sum = 0;
  const int64_t pixels = image.height * image.width;
  const uint8_t* p = image.pixels.data();
  for (int64_t i = 0; i < pixels; ++i, p += image.channels)
    sum += image.channels == 3 ? luma(p[0], p[1], p[2]) : *p;
  const int mean = int(double(sum) / double(std::max<int64_t>(pixels, 1)) + 0.5);
  look_up(image, table_of([&](int i) { return blended(mean, i, float(factor)); }));
}

}  // namespace reprise::data
