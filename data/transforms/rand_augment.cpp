#include "reprise/data/transforms/rand_augment.h"

#include <algorithm>

namespace reprise::data {
namespace {

/// timm's list, in its order.
constexpr std::array timm_operations{
    Operation::auto_contrast, Operation::equalize,    Operation::invert,       Operation::rotate,
    Operation::posterize,     Operation::solarize,    Operation::solarize_add, Operation::color,
    Operation::contrast,      Operation::brightness,  Operation::sharpness,    Operation::shear_x,
    Operation::shear_y,       Operation::translate_x, Operation::translate_y};

/// Draws that an image's operations may need at most, within those of a transform.
constexpr int64_t most_operations = 12;

void check_operations(int64_t operations) {
  check(operations >= 0 && operations <= most_operations, "rand_augment: ", operations, " operations: 0 to ",
        most_operations, " are possible");
}

/// Whether the strength may be negative.
bool has_sign(Operation operation) {
  return operation >= Operation::shear_x && operation <= Operation::sharpness;
}

}  // namespace

RandAugment::RandAugment(RandAugmentOptions options) : options_(options) {
  check_operations(options.operations);
  check(options.bins >= 2 && options.magnitude >= 0 && options.magnitude < options.bins,
        "rand_augment: magnitude ", options.magnitude, " of ", options.bins, " bins");
}

void RandAugment::apply(io::Image& image, Draws& draws, TransformScratch& scratch) const {
  for (int64_t i = 0; i < options_.operations; ++i) {
    const auto operation = Operation(draws.below(14));
    augment(image,
            torchvision_augmentation(operation, options_.magnitude, options_.bins, rand_augment_ranges,
                                     image.height, image.width, draws),
            options_.affine, scratch);
  }
}

std::string RandAugment::text() const {
  const std::string bins = options_.bins == 31 ? "" : detail::join(" of ", options_.bins, " bins");
  return detail::join("rand_augment tv:", options_.operations, ',', options_.magnitude, bins, ' ',
                      data::text(options_.affine));
}

TimmRandAugment::TimmRandAugment(TimmRandAugmentOptions options) : options_(options) {
  check_operations(options.operations);
  check(options.magnitude >= 0 && options.deviation >= 0, "rand_augment: magnitude ", options.magnitude,
        ", deviation ", options.deviation);
}

void TimmRandAugment::apply(io::Image& image, Draws& draws, TransformScratch& scratch) const {
  std::array<Operation, most_operations> chosen{};
  for (int64_t i = 0; i < options_.operations; ++i)
    chosen[size_t(i)] = timm_operations[size_t(draws.below(int64_t(timm_operations.size())))];
  for (int64_t i = 0; i < options_.operations; ++i) {
    const Operation operation = chosen[size_t(i)];
    if (!draws.chance(options_.probability)) continue;
    const double magnitude = std::clamp(options_.magnitude + options_.deviation * draws.normal(), 0.0, 10.0);
    const Sign sign = has_sign(operation) && draws.uniform() > 0.5 ? Sign::negative : Sign::positive;
    augment(image, {operation, timm_amount(operation, magnitude, sign, image.height, image.width)},
            options_.affine, scratch);
  }
}

std::string TimmRandAugment::text() const {
  return detail::join("rand_augment timm:m", shortest(options_.magnitude), "-n", options_.operations, "-p",
                      shortest(options_.probability), "-mstd", shortest(options_.deviation), "-inc1 ",
                      data::text(options_.affine));
}

double timm_amount(Operation operation, double magnitude, Sign sign, int64_t height, int64_t width) {
  const double level = magnitude / 10;
  const double turned = sign == Sign::negative ? -level : level;
  switch (operation) {
    case Operation::rotate:
      return turned * 30;
    case Operation::posterize:
      return 4 - int(level * 4);
    case Operation::solarize:
      return 256 - std::min(256, int(level * 256));
    case Operation::solarize_add:
      return std::min(128, int(level * 110));
    case Operation::color:
    case Operation::contrast:
    case Operation::brightness:
    case Operation::sharpness:
      return std::max(0.1, 1 + turned * 0.9);
    case Operation::shear_x:
    case Operation::shear_y:
      return turned * 0.3;
    case Operation::translate_x:
      return turned * 0.45 * double(width);
    case Operation::translate_y:
      return turned * 0.45 * double(height);
    default:
      return 0;
  }
}

}  // namespace reprise::data
