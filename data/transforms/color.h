// What mixes the channels of a pixel: gray, saturation, hue; and ColorJitter. Images of one channel stay as they are
// under the first three.
#pragma once

#include "reprise/data/transform.h"

namespace reprise::data {

/// All channels become luma.
void to_gray(io::Image& image);
/// Blends with the gray image: 0 is gray, 1 changes nothing.
void saturation(io::Image& image, double factor);
/// Turns the hue by `turn`, in [-0.5, 0.5] of the circle, through HSV of 8 bits as Pillow's.
void hue(io::Image& image, double turn);

/// torchvision's: factors from U(max(0, 1 - x), 1 + x), the turn of the hue from U(-hue, hue), in drawn order.
struct ColorJitterOptions {
  double brightness = 0;   ///< x of its factor; 0: unchanged
  double contrast = 0;     ///< x of its factor; 0: unchanged
  double saturation = 0;   ///< x of its factor; 0: unchanged
  double hue = 0;          ///< largest turn, of the circle: at most 0.5; 0: unchanged
  double probability = 1;  ///< that an image is changed at all
};
/// Brightness, contrast, saturation and hue, each changed by a drawn amount, in drawn order.
class ColorJitter : public Transform {
 public:
  /// Error if an amount is below 0, `hue` above 0.5, or `probability` outside of [0, 1].
  explicit ColorJitter(ColorJitterOptions options);
  Decision decision() const override { return Decision::jitter; }
  void apply(io::Image& image, Draws& draws, TransformScratch& scratch) const override;
  std::string text() const override;

 private:
  ColorJitterOptions options_;
};

/// Gray with a probability.
class RandomGray : public Transform {
 public:
  /// `probability` is that an image of three channels becomes gray. Error unless it is in [0, 1].
  explicit RandomGray(double probability);
  Decision decision() const override { return Decision::gray; }
  void apply(io::Image& image, Draws& draws, TransformScratch& scratch) const override;
  std::string text() const override { return "gray " + shortest(probability_); }

 private:
  double probability_;
};

}  // namespace reprise::data
