// Resizing, crops and flips against torchvision on Pillow's images (tools/make_transform_goldens.py).
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "reprise/data/transforms/flip.h"
#include "reprise/data/transforms/random_crop.h"
#include "reprise/tests/support/errors.h"
#include "reprise/tests/support/made_image.h"
#include "reprise/tests/support/same_image.h"

namespace reprise::data {
namespace {

using testing::expect_error;
using testing::golden_image;
using testing::golden_rows;
using testing::made_image;
using testing::same_image;

io::Image applied(const Transform& transform, io::Image image, uint64_t key = 0) {
  TransformScratch scratch;
  Draws draws = sample_draws(5, key, int(transform.decision()));
  transform.apply(image, draws, scratch);
  return image;
}

TEST(Transforms, ResizeMatchesOracle) {
  const auto cases = golden_rows("eval.cases");
  for (size_t i = 0; i < cases.size(); ++i) {
    const io::Image image = made_image(cases[i][0], cases[i][1], 3);
    EXPECT_TRUE(same_image(applied(Resize({.size = cases[i][2]}), image),
                           golden_image("resize." + std::to_string(i))));
  }
}

TEST(Transforms, ResizeCenterCropMatchesOracle) {
  const auto cases = golden_rows("eval.cases");
  for (size_t i = 0; i < cases.size(); ++i) {
    const io::Image image = made_image(cases[i][0], cases[i][1], 3),
                    want = golden_image("eval." + std::to_string(i));
    EXPECT_TRUE(
        same_image(applied(ResizeCenterCrop({.size = cases[i][2], .crop = cases[i][3]}), image), want))
        << i;
    const io::Image in_two_steps =
        applied(CenterCrop(cases[i][3], cases[i][3]), applied(Resize({cases[i][2]}), image));
    EXPECT_TRUE(same_image(in_two_steps, want)) << i;
  }
}

TEST(Transforms, ResizeCenterCropReadsWhatItNeedsOnly) {
  Draws none = sample_draws(0, 0, 0);
  const io::Box box = ResizeCenterCrop({.size = 256, .crop = 224}).box(375, 500, none);
  // The crop is 224 / 256 of the short side, and 4 input pixels more for a window of the cubic.
  EXPECT_NEAR(double(box.height), 375 * 224.0 / 256, 8);
  EXPECT_NEAR(double(box.width), 375 * 224.0 / 256, 8);
}

TEST(Transforms, CenterCropPadsWithZeros) {
  EXPECT_TRUE(
      same_image(applied(CenterCrop(13, 13), made_image(9, 20, 3)), golden_image("center_crop.padded")));
}

TEST(Transforms, RandomResizedCropBoxesMatchOracle) {
  for (const auto& row : golden_rows("random_resized_crop")) {
    const RandomResizedCrop crop({.min_scale = double(row[0]) / 100});
    Draws draws = sample_draws(5, uint64_t(row[1]), int(Decision::crop));
    EXPECT_EQ(crop.box(row[2], row[3], draws), (io::Box{row[4], row[5], row[6], row[7]})) << row[1];
  }
}

TEST(Transforms, RandomResizedCropReachesTheLastCorner) {
  const RandomResizedCrop crop({.min_scale = 0.3, .max_scale = 0.6});
  std::set<int64_t> bottoms, rights;
  for (uint64_t key = 0; key < 500; ++key) {
    Draws draws = sample_draws(5, key, int(Decision::crop));
    const io::Box box = crop.box(7, 7, draws);
    bottoms.insert(box.top + box.height), rights.insert(box.left + box.width);
  }
  EXPECT_EQ(*bottoms.rbegin(), 7);
  EXPECT_EQ(*rights.rbegin(), 7);
}

TEST(Transforms, RandomResizedCropCutsBeforeItResamples) {
  const RandomResizedCrop crop({.height = 9, .width = 11});
  const io::Image image = made_image(40, 50, 3);
  Draws draws = sample_draws(5, 3, int(Decision::crop));
  io::Image part = image;
  cut(part, crop.box(40, 50, draws));
  TransformScratch scratch;
  resize(part, 9, 11, Filter::bicubic, scratch);
  EXPECT_TRUE(same_image(applied(crop, image, 3), part));
}

TEST(Transforms, PaddingMatchesOracle) {
  TransformScratch scratch;
  io::Image zero = made_image(7, 9, 3), mirrored = zero;
  pad_image(zero, 4, Padding::zero, scratch);
  pad_image(mirrored, 4, Padding::reflect, scratch);
  EXPECT_TRUE(same_image(zero, golden_image("pad.constant")));
  EXPECT_TRUE(same_image(mirrored, golden_image("pad.reflect")));
  io::Image small = made_image(4, 9, 3);
  expect_error([&] { pad_image(small, 4, Padding::reflect, scratch); },
               "(4, 9) cannot be reflected by 4 pixels");
}

TEST(Transforms, RandomCropReachesEveryCorner) {
  const io::Image image = made_image(5, 5, 1);
  std::set<std::string> seen;
  for (uint64_t key = 0; key < 200; ++key) {
    const io::Image crop = applied(RandomCrop({.height = 5, .width = 5, .pad = 1}), image, key);
    seen.emplace(crop.pixels.begin(), crop.pixels.end());
  }
  EXPECT_EQ(seen.size(), 9u);
  expect_error([&] { applied(RandomCrop({.height = 8, .width = 5, .pad = 1}), image); },
               "random_crop: a crop of (8, 5) from (7, 7), padding counted");
}

TEST(Transforms, FlipsAreMirrors) {
  const io::Image image = made_image(3, 5, 3);
  io::Image across = image, down = image;
  flip_horizontally(across);
  flip_vertically(down);
  for (int64_t y = 0; y < 3; ++y)
    for (int64_t x = 0; x < 5; ++x)
      for (int64_t c = 0; c < 3; ++c) {
        EXPECT_EQ(across.row(y)[x * 3 + c], image.row(y)[(4 - x) * 3 + c]);
        EXPECT_EQ(down.row(y)[x * 3 + c], image.row(2 - y)[x * 3 + c]);
      }
  int flipped = 0;
  for (uint64_t key = 0; key < 1000; ++key)
    flipped += applied(RandomFlip(), image, key).pixels == across.pixels;
  EXPECT_NEAR(flipped, 500, 5 * std::sqrt(250));
}

}  // namespace
}  // namespace reprise::data
