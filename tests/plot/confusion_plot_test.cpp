// Confusion matrices: shares per class, and which classes a large one shows.
#include "reprise/plot/confusion_plot.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reprise/tests/support/errors.h"

namespace reprise::plot {
namespace {

using testing::expect_error;

// 4 cats, 3 of them seen; 2 dogs, both taken for cats; no bird, but one cat taken for one.
const Confusion pets{.names = {"cat", "dog", "bird"}, .counts = {3, 0, 1, 2, 0, 0, 0, 0, 0}};

TEST(Confusion, SharesAreOfRowsAndColumns) {
  EXPECT_EQ(pets.images_of(0), 4);
  EXPECT_EQ(pets.answers_of(0), 5);
  EXPECT_DOUBLE_EQ(pets.recall(0), 0.75);
  EXPECT_DOUBLE_EQ(pets.precision(0), 0.6);
  EXPECT_DOUBLE_EQ(pets.recall(1), 0);
  EXPECT_TRUE(std::isnan(pets.precision(1)));  // nothing was taken for a dog
  EXPECT_TRUE(std::isnan(pets.recall(2)));
  EXPECT_DOUBLE_EQ(pets.precision(2), 0);
}

TEST(Confusion, PictureNamesEachMistake) {
  std::string svg = draw_confusion(pets);
  EXPECT_NE(svg.find("<title>dog taken for cat: 2 of 2</title>"), std::string::npos);
  EXPECT_NE(svg.find("<title>cat taken for bird: 1 of 4</title>"), std::string::npos);
  EXPECT_EQ(svg.find("cat taken for dog"), std::string::npos);  // never
  EXPECT_NE(svg.find(">75.0 %<"), std::string::npos);
  EXPECT_NE(svg.find(">60.0 %<"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(Confusion, OfManyClassesTheWorstAreShown) {
  std::string svg = draw_confusion(pets, 1);
  EXPECT_NE(svg.find(">dog<"), std::string::npos);
  EXPECT_EQ(svg.find(">cat<"), std::string::npos);
  EXPECT_EQ(svg.find(">bird<"), std::string::npos);
}

TEST(Confusion, CountsMustFitTheNames) {
  expect_error(
      [] {
        draw_confusion({.names = {"a", "b"}, .counts = {1, 2, 3}});
      },
      "draw_confusion: 3 counts for 2 classes");
}

}  // namespace
}  // namespace reprise::plot
