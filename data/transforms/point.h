// What changes a value by the value alone, and by statistics of the image: a table of 256 for each channel. As
// Pillow's ImageOps and ImageEnhance, to the bit.
#pragma once

#include "reprise/data/transform.h"

namespace reprise::data {

void invert(io::Image& image);
/// Values from `threshold` on become 255 - value.
void solarize(io::Image& image, double threshold);
/// Adds `amount` to values below `threshold`, up to 255.
void solarize_add(io::Image& image, int amount, int threshold = 128);
/// Keeps the upper `bits` of each value, 0 to 8.
void posterize(io::Image& image, int bits);
/// Stretches each channel to 0 to 255.
void auto_contrast(io::Image& image);
/// Makes each channel's histogram flat.
void equalize(io::Image& image);
/// Blends with black, and with the gray of the image's mean; 1 changes nothing.
void brightness(io::Image& image, double factor);
void contrast(io::Image& image, double factor);

/// Solarize from 128 on, with a probability.
class RandomSolarize : public Transform {
 public:
  explicit RandomSolarize(double probability) : probability_(probability) {}
  Decision decision() const override { return Decision::solarize; }
  void apply(io::Image& image, Draws& draws, TransformScratch&) const override {
    if (draws.chance(probability_)) solarize(image, 128);
  }
  std::string text() const override { return "solarize " + shortest(probability_); }

 private:
  double probability_;
};

/// (1 - factor) from + factor to, cut towards zero, as Pillow's blend: in f32, clipped outside of [0, 1].
inline uint8_t blended(int from, int to, float factor) {
  const float value = float(from) + factor * float(to - from);
  return value <= 0 ? uint8_t(0) : value >= 255 ? uint8_t(255) : uint8_t(value);
}

/// Luma as Pillow's `convert("L")`.
inline uint8_t luma(int red, int green, int blue) {
  return uint8_t((19595 * red + 38470 * green + 7471 * blue + 32768) >> 16);
}

}  // namespace reprise::data
