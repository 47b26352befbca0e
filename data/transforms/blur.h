// What looks at a pixel's neighbours: sharpness and Gaussian blur, as Pillow's.
#pragma once

#include "reprise/data/transform.h"

namespace reprise::data {

/// Blends with the smoothed image, (sum of the 3 x 3 neighbours + 4 pixel) / 13 with borders as they are: 0 is smooth,
/// 1 changes nothing, 2 is sharp.
void sharpness(io::Image& image, double factor, TransformScratch& scratch);

/// A Gaussian of deviation `radius`, by three box blurs of fractional width along each axis (Gwosdek et al. 2011).
void gaussian_blur(io::Image& image, double radius, TransformScratch& scratch);

/// With a probability a blur of radius U(min_radius, max_radius), in pixels.
struct RandomBlurOptions {
  double probability = 0.5, min_radius = 0.1, max_radius = 2;
};
class RandomBlur : public Transform {
 public:
  explicit RandomBlur(RandomBlurOptions options) : options_(options) {}
  Decision decision() const override { return Decision::blur; }
  void apply(io::Image& image, Draws& draws, TransformScratch& scratch) const override;
  std::string text() const override;

 private:
  RandomBlurOptions options_;
};

}  // namespace reprise::data
