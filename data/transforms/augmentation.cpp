#include "reprise/data/transforms/augmentation.h"

#include <cmath>

#include "reprise/data/transforms/blur.h"
#include "reprise/data/transforms/color.h"
#include "reprise/data/transforms/point.h"

namespace reprise::data {
namespace {

/// torch.linspace(first, last, bins)[bin], which counts from the nearer end, in f32 with fused products.
double linspace(double first, double last, int64_t bin, int64_t bins) {
  const auto begin = float(first), end = float(last);
  const float step = (end - begin) / float(bins - 1);
  return bin < bins / 2 ? std::fma(step, float(bin), begin) : std::fma(-step, float(bins - 1 - bin), end);
}

double largest(Operation operation, const AugmentationRanges& ranges, int64_t height, int64_t width) {
  switch (operation) {
    case Operation::shear_x:
    case Operation::shear_y:
      return ranges.shear;
    case Operation::translate_x:
      return ranges.translate + ranges.translate_share * double(width);
    case Operation::translate_y:
      return ranges.translate + ranges.translate_share * double(height);
    case Operation::rotate:
      return ranges.rotate;
    default:
      return ranges.enhance;
  }
}

}  // namespace

void augment(io::Image& image, const Augmentation& augmentation, const AffineOptions& options,
             TransformScratch& scratch) {
  const double amount = augmentation.amount;
  switch (augmentation.operation) {
    case Operation::identity:
      return;
    case Operation::shear_x:
      return affine(image, {1, amount, 0, 0, 1, 0}, options, scratch);
    case Operation::shear_y:
      return affine(image, {1, 0, 0, amount, 1, 0}, options, scratch);
    case Operation::translate_x:
      return affine(image, {1, 0, amount, 0, 1, 0}, options, scratch);
    case Operation::translate_y:
      return affine(image, {1, 0, 0, 0, 1, amount}, options, scratch);
    case Operation::rotate:
      return rotate(image, amount, options, scratch);
    case Operation::brightness:
      return brightness(image, amount);
    case Operation::color:
      return saturation(image, amount);
    case Operation::contrast:
      return contrast(image, amount);
    case Operation::sharpness:
      return sharpness(image, amount, scratch);
    case Operation::posterize:
      return posterize(image, int(amount));
    case Operation::solarize:
      return solarize(image, amount);
    case Operation::auto_contrast:
      return auto_contrast(image);
    case Operation::equalize:
      return equalize(image);
    case Operation::invert:
      return invert(image);
    case Operation::solarize_add:
      return solarize_add(image, int(amount));
  }
}

Augmentation torchvision_augmentation(Operation operation, int64_t bin, int64_t bins,
                                      const AugmentationRanges& ranges, int64_t height, int64_t width,
                                      Draws& draws) {
  if (operation == Operation::identity || operation >= Operation::auto_contrast) return {operation};
  if (operation == Operation::solarize) return {operation, 255 * linspace(1, 0, bin, bins)};
  if (operation == Operation::posterize) {
    const float lost = float(bin) / float(double(bins - 1) / ranges.posterize);
    return {operation, double(std::nearbyint(8 - lost))};
  }
  double strength = linspace(0, largest(operation, ranges, height, width), bin, bins);
  if (draws.uniform() <= 0.5) strength = -strength;
  if (operation == Operation::translate_x || operation == Operation::translate_y)
    return {operation, -std::trunc(strength)};  // the image moves one way, what it reads the other
  const bool blends = operation >= Operation::brightness;
  return {operation, blends ? 1 + strength : strength};
}

std::string text(const AffineOptions& options) {
  return detail::join(name_of(options.interpolation), " fill ", int(options.fill[0]), ' ',
                      int(options.fill[1]), ' ', int(options.fill[2]));
}

}  // namespace reprise::data
