#include "reprise/data/transforms/color.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "reprise/data/transforms/point.h"

namespace reprise::data {
namespace {

template <class Change>
void for_each_color(io::Image& image, Change&& change) {
  if (image.channels != 3) return;
  for (size_t i = 0; i < image.pixels.size(); i += 3) change(&image.pixels[i]);
}

/// Red, green, blue with hue and saturation in 255ths, and the largest of them.
struct Hsv {
  int hue = 0, saturation = 0, value = 0;
};

Hsv hsv_of(const uint8_t* color) {
  const int r = color[0], g = color[1], b = color[2];
  const int high = std::max({r, g, b}), low = std::min({r, g, b});
  if (high == low) return {.value = high};
  const auto range = float(high - low);
  const float from_r = float(high - r) / range, from_g = float(high - g) / range,
              from_b = float(high - b) / range;
  const double sixths = high == r   ? from_b - from_g
                        : high == g ? 2.0 + from_r - from_b
                                    : 4.0 + from_g - from_r;
  const auto turn = float(std::fmod(sixths / 6.0 + 1.0, 1.0));
  return {int(turn * 255.0), int(range / float(high) * 255.0), high};
}

void write_color(const Hsv& hsv, uint8_t* color) {
  const double value = hsv.value, saturation = float(hsv.saturation / 255.0);
  const auto sixths = float(hsv.hue * 6.0 / 255.0);
  const int sector = int(sixths);
  const double f = sixths - float(sector);
  auto faded = [&](double by) {
    return uint8_t(std::clamp(std::round(value * (1.0 - saturation * by)), 0.0, 255.0));
  };
  const auto v = uint8_t(hsv.value), p = faded(1), q = faded(f), t = faded(1.0 - f);
  const std::array<std::array<uint8_t, 3>, 6> colors{
      {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}}};
  std::copy_n(colors[size_t(sector % 6)].begin(), 3, color);
}

}  // namespace

void to_gray(io::Image& image) {
  for_each_color(image, [](uint8_t* color) { std::fill_n(color, 3, luma(color[0], color[1], color[2])); });
}

void saturation(io::Image& image, double factor) {
  for_each_color(image, [&](uint8_t* color) {
    const int gray = luma(color[0], color[1], color[2]);
    for (int c = 0; c < 3; ++c) color[c] = blended(gray, color[c], float(factor));
  });
}

void hue(io::Image& image, double turn) {
  const int added = int(turn * 255);
  for_each_color(image, [&](uint8_t* color) {
    Hsv hsv = hsv_of(color);
    hsv.hue = (hsv.hue + added) & 255;  // 8 bits go round the circle
    write_color(hsv, color);
  });
}

ColorJitter::ColorJitter(ColorJitterOptions options) : options_(options) {
  for (double amount : {options.brightness, options.contrast, options.saturation, options.hue})
    check(amount >= 0, "color_jitter: an amount is below 0: ", amount);
  check(options.hue <= 0.5, "color_jitter: hue above 0.5: ", options.hue);
  check(options.probability >= 0 && options.probability <= 1,
        "color_jitter: no probability: ", options.probability);
}

void ColorJitter::apply(io::Image& image, Draws& draws, TransformScratch&) const {
  if (options_.probability < 1 && !draws.chance(options_.probability)) return;
  std::array<int, 4> order{0, 1, 2, 3};
  for (int i = 3; i > 0; --i) std::swap(order[size_t(i)], order[size_t(draws.below(i + 1))]);
  auto factor = [&](double amount) { return draws.uniform(std::max(0.0, 1 - amount), 1 + amount); };
  const double b = factor(options_.brightness), c = factor(options_.contrast),
               s = factor(options_.saturation);
  const double turn = draws.uniform(-options_.hue, options_.hue);
  for (int which : order) {
    if (which == 0 && options_.brightness > 0) brightness(image, b);
    if (which == 1 && options_.contrast > 0) contrast(image, c);
    if (which == 2 && options_.saturation > 0) saturation(image, s);
    if (which == 3 && options_.hue > 0) hue(image, turn);
  }
}

std::string ColorJitter::text() const {
  return detail::join("color_jitter ", shortest(options_.brightness), ' ', shortest(options_.contrast), ' ',
                      shortest(options_.saturation), ' ', shortest(options_.hue),
                      options_.probability < 1 ? " probability " + shortest(options_.probability) : "");
}

RandomGray::RandomGray(double probability) : probability_(probability) {
  check(probability >= 0 && probability <= 1, "gray: a probability of ", probability);
}

void RandomGray::apply(io::Image& image, Draws& draws, TransformScratch&) const {
  if (draws.chance(probability_)) to_gray(image);
}

}  // namespace reprise::data
