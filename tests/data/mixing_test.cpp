// Mixing and erasing: boxes against timm's and torchvision's, shares, and what is keyed by what.
#include "reprise/data/mixing.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reprise/data/erasing.h"
#include "reprise/data/transform.h"
#include "reprise/tests/support/made_image.h"

namespace reprise::data {
namespace {

using testing::golden_rows;
using testing::transform_goldens;

TEST(Mixing, CutMixCorrectsLambdaForTheClippedBox) {
  const auto boxes = golden_rows("cutmix.boxes");
  const auto lambdas = transform_goldens().read("cutmix.lambdas").to_vector<double>();
  for (size_t i = 0; i < boxes.size(); ++i) {
    const auto& row = boxes[i];
    const Mix mix = cutmix_of(lambdas[2 * i], row[0], row[1], row[2], row[3]);
    EXPECT_EQ(mix.box, (io::Box{row[4], row[5], row[6], row[7]})) << i;
    EXPECT_NEAR(mix.lambda, lambdas[2 * i + 1], 1e-15) << i;
  }
}

TEST(Mixing, OfABatchIsOneOfPairsMany) {
  MixingOptions options{.mixup = 0.8, .cutmix = 1};
  for (int64_t step = 0; step < 20; ++step)
    EXPECT_EQ(mix_of(options, 32, 32, 1, step, 0), mix_of(options, 32, 32, 1, step, 5)) << step;
  EXPECT_NE(mix_of(options, 32, 32, 1, 0, 0), mix_of(options, 32, 32, 1, 1, 0));
  EXPECT_NE(mix_of(options, 32, 32, 1, 0, 0), mix_of(options, 32, 32, 2, 0, 0));
  options.mode = MixingMode::pair;
  EXPECT_NE(mix_of(options, 32, 32, 1, 0, 0), mix_of(options, 32, 32, 1, 0, 1));
}

TEST(Mixing, KeepsItsShares) {
  const MixingOptions options{.mixup = 0.8, .cutmix = 1, .probability = 0.8, .switch_probability = 0.25};
  int mixed = 0, cut = 0;
  for (int64_t step = 0; step < 2000; ++step) {
    const Mix mix = mix_of(options, 64, 64, 3, step, 0);
    mixed += mix != Mix{}, cut += mix.cutmix;
    EXPECT_TRUE(mix.lambda >= 0 && mix.lambda <= 1);
  }
  EXPECT_NEAR(mixed, 1600, 5 * std::sqrt(2000 * 0.16));
  EXPECT_NEAR(cut, 400, 5 * std::sqrt(2000 * 0.16));
  EXPECT_FALSE(mix_of({.mixup = 1}, 64, 64, 3, 0, 0).cutmix);
  EXPECT_TRUE(mix_of({.cutmix = 1}, 64, 64, 3, 0, 0).cutmix);
  EXPECT_EQ(mix_of({}, 64, 64, 3, 0, 0), Mix{});
}

TEST(Mixing, SmoothsBothTargets) {
  std::vector<float> target(5);
  mixed_target(1, 3, 0.7, 0.1, target);
  const double off = 0.02, on = 0.92;
  const double want[] = {off, 0.7 * on + 0.3 * off, off, 0.7 * off + 0.3 * on, off};
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(target[i], want[i], 1e-7) << i;
  mixed_target(2, 2, 0.7, 0, target);
  EXPECT_NEAR(target[2], 1, 1e-7);
}

TEST(Erasing, BoxesMatchOracle) {
  const ErasingOptions timm{.probability = 0.5};
  const ErasingOptions torchvision{
      .probability = 0.5, .max_area = 0.33, .max_ratio = 3.3, .fill = ErasingFill::zero};
  for (const auto& [name, options] : {std::pair{"timm", timm}, std::pair{"torchvision", torchvision}}) {
    int erased = 0;
    for (const auto& row : golden_rows(std::string("erasing.") + name)) {
      const io::Box box =
          erased_box(options, row[1], row[2], sample_draws(6, uint64_t(row[0]), int(Decision::erasing)));
      EXPECT_EQ(box, (io::Box{row[3], row[4], row[5], row[6]})) << name << ' ' << row[0];
      erased += box.height > 0;
    }
    EXPECT_GT(erased, 15) << name;
  }
}

}  // namespace
}  // namespace reprise::data
