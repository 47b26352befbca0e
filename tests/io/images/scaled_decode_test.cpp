// Scaled decoding: which files come smaller, and that their pixels are libjpeg's own, as Pillow's `draft` has them.
#include <gtest/gtest.h>

#include <random>

#include "reprise/io/images/cut.h"
#include "reprise/io/images/decode.h"
#include "reprise/tests/io/images/golden_images.h"

namespace reprise::io {
namespace {

using reprise::testing::cropped;
using reprise::testing::decoded;
using reprise::testing::expect_same_image;
using reprise::testing::GoldenImages;

// The pixel that is nearest to an edge, of an image divided.
int64_t nearest(int64_t edge, int64_t shrink) { return (2 * edge + shrink) / (2 * shrink); }

std::vector<std::string> jpegs(const GoldenImages& golden) {
  std::vector<std::string> out = golden.names();
  std::erase_if(out, [](const std::string& name) { return !name.starts_with("jpeg"); });
  return out;
}

TEST(ScaledDecode, LeavesAPartTwiceItsTarget) {
  struct Row {
    int64_t height, width;
    Size target;
    int64_t shrink;
  };
  for (const Row& row : std::vector<Row>{{3000, 4000, {224, 224}, 4},
                                         {3000, 4000, {}, 1},
                                         {3000, 4000, {224, 0}, 1},
                                         {1792, 1792, {224, 224}, 4},
                                         {1791, 1792, {224, 224}, 2},
                                         {1792, 1791, {224, 224}, 2},
                                         {896, 896, {224, 224}, 2},
                                         {895, 2000, {224, 224}, 1},
                                         {2000, 895, {224, 224}, 1},
                                         {500, 375, {224, 224}, 1},
                                         {30000, 30000, {2, 2}, 4}})
    EXPECT_EQ(shrink_for({7, 5, row.height, row.width}, row.target), row.shrink)
        << row.height << " x " << row.width;
}

TEST(ScaledDecode, IsPillowsDraft) {
  GoldenImages golden;
  ASSERT_EQ(jpegs(golden).size(), 8u);
  for (const std::string& name : jpegs(golden))
    for (int64_t shrink : {2, 4}) {
      Image whole = golden.image(name + (shrink == 2 ? ".half" : ".quarter"));
      const int64_t height = 37, width = 51;
      Image got = decoded(golden.file(name), {.target = {height / (2 * shrink), height / (2 * shrink)}});
      expect_same_image(got, cropped(whole, {0, 0, nearest(height, shrink), nearest(width, shrink)}), name);
    }
}

TEST(ScaledDecode, RegionIsTheWholeImages) {
  GoldenImages golden;
  std::mt19937 random(7);
  auto below = [&](int64_t end) { return int64_t(random() % uint64_t(end)); };
  int64_t seen[5] = {};
  for (const std::string& name : jpegs(golden)) {
    std::string file = golden.file(name);
    const Image wholes[] = {golden.image(name + ".rgb"), golden.image(name + ".half"),
                            golden.image(name + ".quarter")};
    for (int i = 0; i < 300; ++i) {
      Box box;
      box.height = 1 + below(37), box.width = 1 + below(51);
      box.top = below(37 - box.height + 1), box.left = below(51 - box.width + 1);
      const Size target{1 + below(4), 1 + below(4)};
      const int64_t shrink = shrink_for(box, target);
      ++seen[shrink];
      Box divided{nearest(box.top, shrink), nearest(box.left, shrink)};
      divided.height = nearest(box.top + box.height, shrink) - divided.top;
      divided.width = nearest(box.left + box.width, shrink) - divided.left;
      expect_same_image(decoded(file, {.region = [&](int64_t, int64_t) { return box; }, .target = target}),
                        cropped(wholes[shrink / 2], divided), name);
      if (HasFailure())
        FAIL() << name << " by " << shrink << ": " << box.top << ' ' << box.left << ' ' << box.height << ' '
               << box.width;
    }
  }
  EXPECT_TRUE(seen[1] > 300 && seen[2] > 300 && seen[4] > 300) << seen[1] << ' ' << seen[2] << ' ' << seen[4];
}

// The size that counts is the upright one, and the smaller image is turned as the whole one is.
TEST(ScaledDecode, IsTurned) {
  GoldenImages golden;
  for (int number = 1; number <= 8; ++number) {
    std::string name = "exif_" + std::to_string(number), file = golden.file(name);
    // 19 x 29 pixels as they are stored: upright targets of 4 x 7 fit those that are not turned onto their side.
    Image stored = decoded(file, {.apply_exif = false, .target = {4, 7}});
    ASSERT_EQ(stored.height, 10) << name;
    const bool is_swapped = number >= 5;
    Image want, got = decoded(file, {.target = is_swapped ? Size{7, 4} : Size{4, 7}});
    if (number == 1)
      want = stored;
    else
      turn_upright(stored, orientation_of(number), want);
    expect_same_image(got, want, name);
    EXPECT_EQ(decoded(file, {.target = is_swapped ? Size{4, 7} : Size{7, 4}}).height, is_swapped ? 29 : 19);
  }
}

TEST(ScaledDecode, IsForJpegsAlone) {
  GoldenImages golden;
  expect_same_image(decoded(golden.file("png_rgb_interlaced"), {.target = {2, 2}}),
                    golden.image("png_rgb_interlaced.rgb"), "png_rgb_interlaced");
}

}  // namespace
}  // namespace reprise::io
