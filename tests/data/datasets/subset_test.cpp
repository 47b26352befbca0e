// Parts of a dataset.
#include "reprise/data/datasets/subset.h"

#include <gtest/gtest.h>

#include "reprise/tests/data/counted_images.h"
#include "reprise/tests/support/errors.h"

namespace reprise::data {
namespace {

using testing::CountedImages;
using testing::expect_error;

TEST(Subset, HasTheImagesOfItsIndices) {
  Subset part(std::make_shared<CountedImages>(9), {7, 2});
  EXPECT_EQ(part.size(), 2);
  EXPECT_EQ(part.label(0), 1);
  EXPECT_EQ(part.name(1), "image 2");
  EXPECT_EQ(part.classes(), 3);
  io::Image image;
  part.read(0, {}, image);
  EXPECT_EQ(image.pixels[0], CountedImages::value(7, 0, 0, 0));
  expect_error(
      [] {
        Subset(std::make_shared<CountedImages>(9), {3, 9});
      },
      "subset: there is no image 9 among 9");
  for (const int64_t index : {-1, 2}) {
    expect_error([&] { part.label(index); }, "dataset: there is no image", "among 2");
    expect_error([&] { part.name(index); }, "among 2");
    expect_error([&] { part.read(index, {}, image); }, "among 2");
  }
}

TEST(HoldOut, CutsInTwoAndStaysWhenImagesAreAdded) {
  auto [kept, held] = hold_out(std::make_shared<CountedImages>(1000), 0.1, 7);
  EXPECT_EQ(kept.size() + held.size(), 1000);
  EXPECT_NEAR(double(held.size()), 100, 30);  // three deviations of 9.5
  auto [more_kept, more_held] = hold_out(std::make_shared<CountedImages>(1500), 0.1, 7);
  std::set<std::string> names;
  for (int64_t i = 0; i < kept.size(); ++i) names.insert(kept.name(i));
  for (int64_t i = 0; i < held.size(); ++i) {
    EXPECT_TRUE(names.insert(held.name(i)).second) << "an image in both parts";
    EXPECT_EQ(more_held.name(i), held.name(i));
  }
  EXPECT_EQ(names.size(), 1000u);
  auto [other_kept, other_held] = hold_out(std::make_shared<CountedImages>(1000), 0.1, 8);
  bool same = other_held.size() == held.size();
  for (int64_t i = 0; same && i < held.size(); ++i) same = other_held.name(i) == held.name(i);
  EXPECT_FALSE(same) << "another seed holds out others";
}

TEST(HoldOut, RefusesAnEmptyPart) {
  expect_error([] { hold_out(std::make_shared<CountedImages>(1), 0.5, 1); }, "hold_out: of 1 images");
  expect_error([] { hold_out(std::make_shared<CountedImages>(10), 1, 1); },
               "hold_out: needs a fraction in (0, 1), got 1");
}

}  // namespace
}  // namespace reprise::data
