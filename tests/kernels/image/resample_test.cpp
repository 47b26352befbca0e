// Resampling against images that Pillow made (tools/make_transform_goldens.py), and parts against wholes.
#include "reprise/kernels/image/resample.h"

#include <gtest/gtest.h>

#include "reprise/tests/support/errors.h"
#include "reprise/tests/support/made_image.h"
#include "reprise/tests/support/same_image.h"

namespace reprise::kernels {
namespace {

using testing::expect_error;
using testing::golden_image;
using testing::made_image;
using testing::same_image;

TensorView view(io::Image& image) {
  TensorView x;
  x.data = image.pixels.data();
  x.shape = {image.height, image.width, image.channels};
  x.strides = {image.row_bytes(), image.channels, 1};
  x.dtype = DType::u8;
  return x;
}

io::Image resampled(const TensorView& x, int64_t height, int64_t width, Filter filter) {
  io::Image y;
  y.resize(height, width, x.shape[2]);
  ResampleScratch scratch;
  resample({.x = x, .y = view(y), .filter = filter}, scratch);
  return y;
}

TEST(Resample, IsPillowsToTheBit) {
  const auto sizes = testing::golden_rows("resample.sizes");
  ASSERT_EQ(sizes.size(), 60u);
  for (size_t i = 0; i < sizes.size(); ++i)
    for (Filter filter : {Filter::bilinear, Filter::bicubic})
      for (int64_t channels : {1, 3}) {
        const std::string key = "resample." + std::to_string(i) +
                                (filter == Filter::bilinear ? ".bilinear." : ".bicubic.") +
                                std::to_string(channels);
        io::Image x = made_image(sizes[i][0], sizes[i][1], channels);
        EXPECT_TRUE(same_image(resampled(view(x), sizes[i][2], sizes[i][3], filter), golden_image(key)))
            << key;
      }
}

// The size of a case, for tests that need no golden: it shrinks one way and grows the other.
constexpr int64_t tall = 23, wide = 31, new_tall = 29, new_wide = 12;

TEST(Resample, ReadsACropAsASlice) {
  io::Image whole = made_image(tall + 5, wide + 7, 3), crop = made_image(tall, wide, 3);
  for (int64_t y = 0; y < tall; ++y) std::copy_n(whole.row(y + 2) + 4 * 3, wide * 3, crop.row(y));
  const TensorView slice_of_whole = slice(slice(view(whole), 0, 2, 2 + tall), 1, 4, 4 + wide);
  EXPECT_TRUE(same_image(resampled(slice_of_whole, new_tall, new_wide, Filter::bicubic),
                         resampled(view(crop), new_tall, new_wide, Filter::bicubic)));
}

TEST(Resample, TakesAnyStrides) {
  io::Image x = made_image(tall, wide, 3), turned;
  turned.resize(wide, tall, 3);  // its rows are the columns of x
  for (int64_t y = 0; y < tall; ++y)
    for (int64_t i = 0; i < wide; ++i) std::copy_n(x.row(y) + i * 3, 3, turned.row(i) + y * 3);
  const io::Image want = resampled(view(x), new_tall, new_wide, Filter::bilinear);
  EXPECT_TRUE(
      same_image(resampled(transpose(view(turned), 0, 1), new_tall, new_wide, Filter::bilinear), want));

  io::Image y;
  y.resize(new_wide, new_tall, 3);
  ResampleScratch scratch;
  resample({.x = view(x), .y = transpose(view(y), 0, 1), .filter = Filter::bilinear}, scratch);
  for (int64_t row = 0; row < new_tall; ++row)
    for (int64_t i = 0; i < new_wide * 3; ++i)
      ASSERT_EQ(y.row(i / 3)[row * 3 + i % 3], want.row(row)[i]) << row << ' ' << i;
}

TEST(Resample, OfAPartIsThePartOfTheWhole) {
  io::Image x = made_image(tall, wide, 3);
  for (Filter filter : {Filter::bilinear, Filter::bicubic}) {
    const io::Image whole = resampled(view(x), new_tall, new_wide, filter);
    const Window rows = resample_reads(tall, new_tall, 9, 9 + 7, filter);
    const Window columns = resample_reads(wide, new_wide, 3, 3 + 5, filter);
    EXPECT_LT(rows.size(), tall);
    EXPECT_LT(columns.size(), wide);
    io::Image y, want;
    y.resize(7, 5, 3);
    want.resize(7, 5, 3);
    for (int64_t row = 0; row < 7; ++row) std::copy_n(whole.row(9 + row) + 3 * 3, 5 * 3, want.row(row));
    ResampleScratch scratch;
    resample({.x = slice(slice(view(x), 0, rows.begin, rows.end), 1, columns.begin, columns.end),
              .y = view(y),
              .filter = filter,
              .vertical = {.in = tall, .out = new_tall, .in_begin = rows.begin, .out_begin = 9},
              .horizontal = {.in = wide, .out = new_wide, .in_begin = columns.begin, .out_begin = 3}},
             scratch);
    EXPECT_TRUE(same_image(y, want));
  }
}

TEST(Resample, AllocatesNothingOnceWarm) {
  io::Image large = made_image(40, 50, 3), small = made_image(20, 33, 1), y = made_image(17, 19, 3);
  ResampleScratch scratch;
  resample({.x = view(large), .y = view(y), .filter = Filter::bicubic}, scratch);
  auto places = [&] {
    return std::vector<const void*>{scratch.between.data(),
                                    scratch.rows.data(),
                                    scratch.columns.data(),
                                    scratch.vertical.weights.data(),
                                    scratch.horizontal.weights.data(),
                                    scratch.vertical.windows.data()};
  };
  const auto before = places();
  io::Image gray = made_image(17, 19, 1);
  resample({.x = view(small), .y = view(gray)}, scratch);
  resample({.x = view(large), .y = view(y), .filter = Filter::bicubic}, scratch);
  EXPECT_EQ(places(), before);
}

TEST(Resample, RefusesWhatDoesNotFit) {
  io::Image x = made_image(5, 7, 3), y = made_image(3, 3, 3), gray = made_image(3, 3, 1), none;
  none.resize(0, 3, 3);
  ResampleScratch scratch;
  expect_error([&] { resample({.x = view(x), .y = view(gray)}, scratch); },
               "resample: the number of channels differs", "3 and 1");
  expect_error([&] { resample({.x = view(none), .y = view(y)}, scratch); }, "vertical: a size is 0: 0 to 3");
  expect_error([&] { resample({.x = select(view(x), 0, 0), .y = view(y)}, scratch); }, "needs u8 (H, W, C)");
  expect_error(
      [&] {
        resample({.x = view(x), .y = view(y), .vertical = {.in = 9, .out = 9, .in_begin = 3, .out_begin = 2}},
                 scratch);
      },
      "vertical: reads pixels 2 to 5, given 3 to 8");
  expect_error(
      [&] {
        resample({.x = view(x), .y = view(y), .vertical = {.in = 5, .out = 4, .out_begin = 2}}, scratch);
      },
      "pixels 2 to 5 are not of 4");
}

}  // namespace
}  // namespace reprise::kernels
