// Images in IDX files as a data set: small ones written here, and Debian's Fashion-MNIST where it is installed.
#include "reprise/data/datasets/idx_dataset.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reprise/io/arrays/idx.h"
#include "reprise/io/folder.h"
#include "reprise/io/gzip.h"
#include "reprise/tests/io/temp_folder.h"

namespace reprise::data {
namespace {

using reprise::testing::expect_error;
using reprise::testing::TempFolder;

// Image i of `count`, 3 x 2: pixel (y, x) is 100 i + 10 y + x.
std::string images_file(int count) {
  io::IdxArray array{.shape = {count, 3, 2}, .bytes = {}};
  for (int i = 0; i < count; ++i)
    for (int y = 0; y < 3; ++y)
      for (int x = 0; x < 2; ++x) array.bytes += char(100 * i + 10 * y + x);
  return io::write_idx(array);
}

std::string labels_file(const std::string& labels) {
  return io::write_idx({.shape = {int64_t(labels.size())}, .bytes = labels});
}

TEST(IdxDataset, ReadsImagesAndLabels) {
  TempFolder folder;
  std::string images = folder.write("images.gz", io::gzip(images_file(2)));
  PixelDataset set = idx_dataset(images, folder.write("labels", labels_file(std::string("\x02\x00", 2))));
  EXPECT_EQ(set.size(), 2);
  EXPECT_EQ(set.class_names(), (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_EQ(set.label(0), 2);
  EXPECT_EQ(set.label(1), 0);
  EXPECT_EQ(set.name(1), images + ", image 1");
  io::Image image;
  set.read(1, {.channels = 1}, image);
  EXPECT_EQ(image.pixels, (std::vector<uint8_t>{100, 101, 110, 111, 120, 121}));
  EXPECT_EQ(image.height, 3);
  EXPECT_EQ(image.width, 2);
}

TEST(IdxDataset, ReadsARegionInThreeChannels) {
  TempFolder folder;
  PixelDataset set = idx_dataset(folder.write("images", images_file(2)),
                                 folder.write("labels", labels_file(std::string("\x00\x01", 2))));
  io::Image image;
  set.read(0,
           {.region =
                [](int64_t height, int64_t width) {
                  EXPECT_EQ(height, 3);
                  EXPECT_EQ(width, 2);
                  return io::Box{.top = 1, .left = 1, .height = 2, .width = 1};
                }},
           image);
  EXPECT_EQ(image.pixels, (std::vector<uint8_t>{11, 11, 11, 21, 21, 21}));
  auto reads = [&](io::Box box) { set.read(0, {.region = [&](int64_t, int64_t) { return box; }}, image); };
  for (io::Box box : {io::Box{2, 0, 2, 1}, io::Box{0, 1, 1, 2}, io::Box{-1, 0, 1, 1}, io::Box{0, 0, 0, 1}})
    expect_error([&] { reads(box); }, "is not inside the image of 3 x 2");
  expect_error([&] { set.read(0, {.channels = 2}, image); }, "decode: channels must be 1 or 3, not 2");
  expect_error([&] { set.read(2, {}, image); }, "dataset: there is no image 2 among 2");
}

TEST(IdxDataset, WhatDoesNotFitIsAnError) {
  TempFolder folder;
  std::string images = folder.write("images", images_file(2));
  auto with_labels = [&](const std::string& labels) {
    return idx_dataset(images, folder.write("labels", labels_file(labels)), {"a", "b"});
  };
  expect_error([&] { with_labels("abc"); }, images + " holds 2 images, but ", "3 labels");
  expect_error([&] { with_labels(std::string("\x01\x02", 2)); },
               images + ", image 1: its label is 2, but there are 2 classes");
  expect_error(
      [&] { idx_dataset(folder.write("none", images_file(0)), folder.write("labels", labels_file(""))); },
      "holds no images");
  expect_error([&] { idx_dataset(images, folder.write("labels", labels_file(std::string(2, '\0')))); },
               "it has 1 class");
}

TEST(FashionMnist, SaysWhereToGetIt) {
  TempFolder folder;
  expect_error([&] { fashion_mnist(Split::train, folder.path()); }, "train-images-idx3-ubyte.gz is not there",
               "apt-get install dataset-fashion-mnist");
}

TEST(FashionMnist, HasItsImages) {
  if (!io::exists("/usr/share/datasets/fashion-mnist"))
    GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  PixelDataset test = fashion_mnist(Split::test);
  ASSERT_EQ(test.size(), 10000);
  ASSERT_EQ(test.classes(), 10);
  std::vector<int> per_class(10);
  for (int64_t i = 0; i < test.size(); ++i) ++per_class[size_t(test.label(i))];
  EXPECT_EQ(per_class, std::vector<int>(10, 1000));
  EXPECT_EQ(test.class_names()[size_t(test.label(0))], "Ankle boot");
  // Its pixels are distributed as the training images', whose mean and deviation are given.
  double sum = 0, squares = 0;
  io::Image image;
  for (int64_t i = 0; i < test.size(); ++i) {
    test.read(i, {.channels = 1}, image);
    for (uint8_t pixel : image.pixels) sum += pixel / 255.0, squares += pixel / 255.0 * pixel / 255.0;
  }
  double count = 10000.0 * 28 * 28, mean = sum / count;
  EXPECT_NEAR(mean, fashion_mnist_mean, 0.002);
  EXPECT_NEAR(std::sqrt(squares / count - mean * mean), fashion_mnist_deviation, 0.002);
}

}  // namespace
}  // namespace reprise::data
