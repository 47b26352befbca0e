// Automatic augmentation against torchvision and timm, which are given our draws (tools/make_transform_goldens.py).
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "reprise/data/transforms/rand_augment.h"
#include "reprise/data/transforms/three_augment.h"
#include "reprise/data/transforms/trivial_augment.h"
#include "reprise/tests/support/errors.h"
#include "reprise/tests/support/made_image.h"
#include "reprise/tests/support/same_image.h"

namespace reprise::data {
namespace {

using testing::expect_error;
using testing::golden_image;
using testing::made_image;
using testing::same_image;
using testing::transform_goldens;

constexpr Fill fill{124, 116, 104};

void check_images(const std::string& name, const Transform& transform) {
  TransformScratch scratch;
  for (uint64_t key = 0; key < 40; ++key) {
    io::Image image = made_image(11, 14, 3);
    Draws draws = sample_draws(5, key, int(transform.decision()));
    transform.apply(image, draws, scratch);
    EXPECT_TRUE(same_image(image, golden_image(name + "." + std::to_string(key)))) << name << ' ' << key;
  }
}

TEST(Transforms, RandAugmentMatchesOracle) {
  check_images("augment.tv", RandAugment({.affine = {.fill = fill}}));
}

TEST(Transforms, TimmRandAugmentMatchesOracle) { check_images("augment.timm", TimmRandAugment({})); }

TEST(Transforms, TrivialAugmentWideMatchesOracle) {
  check_images("augment.wide", TrivialAugmentWide({.interpolation = Interpolation::bilinear, .fill = fill}));
}

TEST(Transforms, TimmStrengthsMatchOracle) {
  const auto want = transform_goldens().read("strength.timm").to_vector<double>();
  const Operation order[] = {Operation::rotate,       Operation::posterize,   Operation::solarize,
                             Operation::solarize_add, Operation::color,       Operation::contrast,
                             Operation::brightness,   Operation::sharpness,   Operation::shear_x,
                             Operation::shear_y,      Operation::translate_x, Operation::translate_y};
  size_t i = 0;
  for (double magnitude : {0.0, 3.3, 9.0, 9.4, 10.0})
    for (Sign sign : {Sign::positive, Sign::negative})
      for (Operation operation : order) {
        // timm's translation is a share of the side, times which it moves.
        const bool moves = operation == Operation::translate_x || operation == Operation::translate_y;
        EXPECT_DOUBLE_EQ(timm_amount(operation, magnitude, sign, 28, 48) /
                             (moves ? operation == Operation::translate_x ? 48 : 28 : 1),
                         want[i])
            << i;
        ++i;
      }
  EXPECT_EQ(i, want.size());
}

TEST(Transforms, TorchvisionStrengthsMatchOracle) {
  for (const auto& [name, ranges] :
       {std::pair{"tv", rand_augment_ranges}, std::pair{"wide", trivial_augment_ranges}}) {
    const auto want = transform_goldens().read(std::string("strength.") + name).to_vector<double>();
    size_t i = 0;
    for (int64_t bin : {0, 9, 20, 30})
      for (int which = int(Operation::shear_x); which <= int(Operation::solarize); ++which) {
        const auto operation = Operation(which);
        Draws draws(1, 2, 0, 1);
        const bool negative = Draws(1, 2, 0, 1).uniform() <= 0.5;
        double amount = torchvision_augmentation(operation, bin, 31, ranges, 28, 48, draws).amount;
        double strength = want[i++];
        const bool moves = operation == Operation::translate_x || operation == Operation::translate_y;
        if (operation == Operation::solarize) strength *= 255;
        if (operation < Operation::posterize && negative) strength = -strength;
        if (operation >= Operation::brightness && operation <= Operation::sharpness) strength += 1;
        if (moves) strength = -std::trunc(strength);
        EXPECT_EQ(amount, strength) << name << ' ' << bin << ' ' << which;
      }
    EXPECT_EQ(i, want.size());
  }
}

TEST(Transforms, ThreeAugmentIsOneOfThree) {
  const io::Image image = made_image(9, 8, 3);
  TransformScratch scratch;
  int gray = 0, solarized = 0;
  for (uint64_t key = 0; key < 300; ++key) {
    io::Image changed = image;
    Draws draws = sample_draws(5, key, int(Decision::augment));
    ThreeAugment().apply(changed, draws, scratch);
    gray += changed.pixels[0] == changed.pixels[1] && changed.pixels[3] == changed.pixels[4];
    bool is_solarized = true;
    for (size_t i = 0; i < image.pixels.size(); ++i)
      is_solarized &= changed.pixels[i] == (image.pixels[i] < 128 ? image.pixels[i] : 255 - image.pixels[i]);
    solarized += is_solarized;
  }
  EXPECT_NEAR(gray, 100, 5 * std::sqrt(67));
  EXPECT_NEAR(solarized, 100, 5 * std::sqrt(67));
}

TEST(Transforms, AugmentationsTakeGrayImages) {
  TransformScratch scratch;
  std::set<std::string> seen;
  for (uint64_t key = 0; key < 60; ++key) {
    io::Image image = made_image(9, 8, 1);
    Draws draws = sample_draws(5, key, int(Decision::augment));
    TimmRandAugment({.probability = 1}).apply(image, draws, scratch);
    ASSERT_EQ(image.pixels.size(), 72u);
    seen.emplace(image.pixels.begin(), image.pixels.end());
  }
  EXPECT_GT(seen.size(), 40u);
}

TEST(Transforms, RandAugmentsDialectsAreTold) {
  EXPECT_EQ(RandAugment({.affine = {.fill = fill}}).text(), "rand_augment tv:2,9 nearest fill 124 116 104");
  EXPECT_EQ(TimmRandAugment({}).text(), "rand_augment timm:m9-n2-p0.5-mstd0.5-inc1 bicubic fill 124 116 104");
  expect_error([] { RandAugment({.magnitude = 31}); }, "rand_augment: magnitude 31 of 31 bins");
  expect_error([] { RandAugment({.operations = 13}); }, "rand_augment: 13 operations: 0 to 12 are possible");
}

}  // namespace
}  // namespace reprise::data
