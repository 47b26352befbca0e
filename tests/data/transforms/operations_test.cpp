// Each operation on pixels against Pillow's image (tools/make_transform_goldens.py), to the bit. Where the CPU's
// instructions fuse products and sums (-march=native), hue, blur and affine maps may differ by 1.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "reprise/data/transforms/affine.h"
#include "reprise/data/transforms/blur.h"
#include "reprise/data/transforms/color.h"
#include "reprise/data/transforms/flip.h"
#include "reprise/data/transforms/point.h"
#include "reprise/data/transforms/random_crop.h"
#include "reprise/tests/support/errors.h"
#include "reprise/tests/support/made_image.h"
#include "reprise/tests/support/same_image.h"

namespace reprise::data {
namespace {

using testing::dull_image;
using testing::expect_error;
using testing::golden_image;
using testing::made_image;
using testing::same_image;
using testing::transform_goldens;

using Operation = std::function<void(io::Image&, double argument, TransformScratch& scratch)>;

// Every golden "NAME.ARGUMENT.CHANNELS".
void check_operation(const std::string& name, const Operation& operation,
                     const std::vector<int64_t>& all_channels = {1, 3}) {
  const auto arguments = transform_goldens().read(name + ".arguments").to_vector<double>();
  for (size_t i = 0; i < arguments.size(); ++i)
    for (int64_t channels : all_channels) {
      const bool dull = name == "auto_contrast" || name == "equalize";
      io::Image image = dull ? dull_image(19, 26, channels) : made_image(19, 26, channels);
      TransformScratch scratch;
      operation(image, arguments[i], scratch);
      const std::string key = name + "." + std::to_string(i) + "." + std::to_string(channels);
      EXPECT_TRUE(same_image(image, golden_image(key))) << key << ": " << arguments[i];
    }
}

TEST(Transforms, PointOperationsMatchOracle) {
  check_operation("invert", [](io::Image& image, double, TransformScratch&) { invert(image); });
  check_operation("solarize", [](io::Image& image, double threshold, auto&) { solarize(image, threshold); });
  check_operation("posterize", [](io::Image& image, double bits, auto&) { posterize(image, int(bits)); });
  check_operation("auto_contrast", [](io::Image& image, double, auto&) { auto_contrast(image); });
  check_operation("equalize", [](io::Image& image, double, auto&) { equalize(image); });
  check_operation("brightness", [](io::Image& image, double factor, auto&) { brightness(image, factor); });
  check_operation("contrast", [](io::Image& image, double factor, auto&) { contrast(image, factor); });
}

TEST(Transforms, HistogramOperationsLeaveFlatImages) {
  io::Image flat;
  flat.resize(4, 5, 3);
  for (size_t i = 0; i < flat.pixels.size(); ++i) flat.pixels[i] = i % 3 == 2 ? 9 : 7;
  io::Image stretched = flat, equalized = flat;
  auto_contrast(stretched);
  equalize(equalized);
  EXPECT_TRUE(same_image(stretched, golden_image("flat.auto_contrast")));
  EXPECT_TRUE(same_image(equalized, golden_image("flat.equalize")));
}

TEST(Transforms, ColorsMatchOracle) {
  check_operation("color", [](io::Image& image, double factor, auto&) { saturation(image, factor); }, {3});
  check_operation("hue", [](io::Image& image, double turn, auto&) { hue(image, turn); });
  io::Image image = made_image(19, 26, 3);
  to_gray(image);
  EXPECT_TRUE(same_image(image, golden_image("gray.0.3")));
}

TEST(Transforms, FiltersMatchOracle) {
  check_operation("sharpness",
                  [](io::Image& image, double factor, auto& scratch) { sharpness(image, factor, scratch); });
  check_operation(
      "blur", [](io::Image& image, double radius, auto& scratch) { gaussian_blur(image, radius, scratch); });
}

TEST(Transforms, AffineMapsMatchOracle) {
  for (Interpolation interpolation :
       {Interpolation::nearest, Interpolation::bilinear, Interpolation::bicubic}) {
    const std::string filter = "." + std::string(name_of(interpolation));
    const AffineOptions color{interpolation, {124, 116, 104}};
    auto check_map = [&](const std::string& name, auto map_of) {
      check_operation(name + filter, [&](io::Image& image, double amount, auto& scratch) {
        affine(image, map_of(amount), color, scratch);
      });
    };
    using Map = std::array<double, 6>;
    check_map("shear_x", [](double amount) { return Map{1, amount, 0, 0, 1, 0}; });
    check_map("shear_y", [](double amount) { return Map{1, 0, 0, amount, 1, 0}; });
    check_map("translate_x", [](double amount) { return Map{1, 0, amount, 0, 1, 0}; });
    check_map("translate_y", [](double amount) { return Map{1, 0, 0, 0, 1, amount}; });
    check_operation("rotate" + filter, [&](io::Image& image, double degrees, auto& scratch) {
      rotate(image, degrees, color, scratch);
    });
  }
}

TEST(Transforms, ColorJitterDrawsItsOrderAndFactors) {
  // With one amount the result is that one operation, by a factor of its range.
  const io::Image image = made_image(9, 8, 3);
  TransformScratch scratch;
  for (uint64_t key = 0; key < 20; ++key) {
    io::Image jittered = image, bright = image;
    Draws draws = sample_draws(1, key, int(Decision::jitter)),
          same = sample_draws(1, key, int(Decision::jitter));
    ColorJitter({.brightness = 0.4}).apply(jittered, draws, scratch);
    for (int order = 0; order < 3; ++order) same.bits();
    brightness(bright, same.uniform(0.6, 1.4));
    EXPECT_TRUE(same_image(jittered, bright)) << key;
  }
  // Brightness and contrast in both orders: two images for one pair of factors.
  const ColorJitter both({.brightness = 0.9, .contrast = 0.9});
  int brightness_first = 0;
  for (uint64_t key = 0; key < 200; ++key) {
    io::Image jittered = image, want = image;
    Draws draws = sample_draws(1, key, int(Decision::jitter)),
          same = sample_draws(1, key, int(Decision::jitter));
    both.apply(jittered, draws, scratch);
    for (int order = 0; order < 3; ++order) same.bits();
    const double b = same.uniform(0.1, 1.9), c = same.uniform(0.1, 1.9);
    brightness(want, b), contrast(want, c);
    brightness_first += jittered.pixels == want.pixels;
  }
  EXPECT_NEAR(brightness_first, 100, 5 * std::sqrt(50));
  expect_error([] { ColorJitter({.hue = 0.6}); }, "color_jitter: hue above 0.5: 0.6");
  expect_error([] { ColorJitter({.probability = 2}); }, "color_jitter: no probability: 2");
}

// Each changes an image as its operation does, in its share of the draws, and leaves it alone in the others.
TEST(Transforms, RandomOperationsHaveTheirShareOfTheDraws) {
  const io::Image image = made_image(9, 8, 3);
  TransformScratch scratch;
  int jittered = 0, blurred = 0, solarized = 0;
  for (uint64_t key = 0; key < 400; ++key) {
    auto changed = [&](const Transform& transform, auto&& operation) {
      io::Image got = image, want = image;
      Draws draws = sample_draws(1, key, int(transform.decision())),
            same = sample_draws(1, key, int(transform.decision()));
      transform.apply(got, draws, scratch);
      same.bits();  // whether
      operation(want, same);
      if (same_image(got, image)) return 0;
      EXPECT_TRUE(same_image(got, want)) << transform.text() << ' ' << key;
      return 1;
    };
    jittered += changed(ColorJitter({.brightness = 0.4, .probability = 0.8}), [](io::Image& x, Draws& draws) {
      for (int order = 0; order < 3; ++order) draws.bits();
      brightness(x, draws.uniform(0.6, 1.4));
    });
    blurred += changed(RandomBlur({.probability = 0.5, .min_radius = 1, .max_radius = 2}),
                       [&](io::Image& x, Draws& draws) { gaussian_blur(x, draws.uniform(1, 2), scratch); });
    solarized += changed(RandomSolarize(0.2), [](io::Image& x, Draws&) { solarize(x, 128); });
  }
  EXPECT_NEAR(jittered, 320, 5 * std::sqrt(64));
  EXPECT_NEAR(blurred, 200, 5 * std::sqrt(100));
  EXPECT_NEAR(solarized, 80, 5 * std::sqrt(64));
}

TEST(RandomTransforms, RefuseWhatIsNoProbabilityOrSize) {
  for (const double bad : {-0.1, 1.5}) {
    expect_error([&] { RandomFlip flip(bad); }, "flip: a probability of");
    expect_error([&] { RandomGray gray(bad); }, "gray: a probability of");
  }
  expect_error([] { RandomCrop crop({.height = 0}); }, "random_crop: a crop of (0, 32)");
  expect_error([] { RandomCrop crop({.pad = -1}); }, "with -1 pixels around");
}

}  // namespace
}  // namespace reprise::data
