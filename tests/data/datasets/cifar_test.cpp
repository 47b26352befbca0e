// CIFAR's binary files: planes become pixels, and what is no such file is an Error.
#include "reprise/data/datasets/cifar.h"

#include <gtest/gtest.h>

#include "reprise/io/cifar.h"
#include "reprise/tests/io/temp_folder.h"

namespace reprise::data {
namespace {

using reprise::testing::expect_error;
using reprise::testing::TempFolder;

// A record by the format's definition: `labels`, then 1,024 bytes each of red, green and blue. Pixel p of an image that
// starts at `first` is (first + p, 2 p, 3 p), as bytes.
std::string record(const std::string& labels, int first) {
  std::string out = labels;
  for (int c = 0; c < 3; ++c)
    for (int p = 0; p < 1024; ++p) out += char(c == 0 ? first + p : (c + 1) * p);
  return out;
}

void expect_pixels(const PixelDataset& set, int64_t index, int first) {
  io::Image image;
  set.read(index, {}, image);
  ASSERT_EQ(image.height, 32);
  ASSERT_EQ(image.width, 32);
  for (int p = 0; p < 1024; ++p) {
    EXPECT_EQ(image.pixels[size_t(3 * p)], uint8_t(first + p)) << p;
    EXPECT_EQ(image.pixels[size_t(3 * p + 1)], uint8_t(2 * p)) << p;
    EXPECT_EQ(image.pixels[size_t(3 * p + 2)], uint8_t(3 * p)) << p;
  }
}

TEST(Cifar10, ReadsItsBatchesInOrder) {
  TempFolder folder;
  for (int i = 1; i <= 5; ++i)
    folder.write("data_batch_" + std::to_string(i) + ".bin",
                 record(std::string(1, char(i)), 10 * i) + record(std::string(1, char(0)), 10 * i + 5));
  folder.write("test_batch.bin", record("\x09", 99));
  PixelDataset train = cifar10(folder.path(), Split::train), test = cifar10(folder.path(), Split::test);
  ASSERT_EQ(train.size(), 10);
  EXPECT_EQ(train.label(4), 3);
  EXPECT_EQ(train.label(5), 0);
  expect_pixels(train, 4, 30);
  expect_pixels(train, 5, 35);
  ASSERT_EQ(test.size(), 1);
  EXPECT_EQ(test.label(0), 9);
  expect_pixels(test, 0, 99);
  EXPECT_EQ(test.class_names()[9], "9");
  folder.write("batches.meta.txt",
               "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n");
  EXPECT_EQ(cifar10(folder.path(), Split::test).class_names()[9], "truck");
}

TEST(Cifar100, HasCoarseAndFineLabels) {
  TempFolder folder;
  folder.write("test.bin", record("\x07\x2a", 1) + record("\x01\x63", 2));
  PixelDataset fine = cifar100(folder.path(), Split::test);
  PixelDataset coarse = cifar100(folder.path(), Split::test, Cifar100Labels::coarse);
  EXPECT_EQ(fine.classes(), 100);
  EXPECT_EQ(fine.label(0), 42);
  EXPECT_EQ(fine.label(1), 99);
  EXPECT_EQ(coarse.classes(), 20);
  EXPECT_EQ(coarse.label(0), 7);
  expect_pixels(coarse, 1, 2);
}

TEST(Cifar10, DamageIsAnError) {
  TempFolder folder;
  std::string path = folder.write("test_batch.bin", record("\x01", 1) + "x");
  auto reads = [&] { cifar10(folder.path(), Split::test); };
  expect_error(reads, "cifar: " + path + ": wanted whole records of 3073 bytes, 3074 are there");
  folder.write("test_batch.bin", "");
  expect_error(reads, "3073 bytes, 0 are there");
  folder.write("test_batch.bin", record("\x01", 1) + record("\x0a", 1));
  expect_error(reads, "image 1: its label is 10, but there are 10 classes");
  expect_error([&] { cifar10(folder.path(), Split::train); }, "data_batch_1.bin");
}

TEST(Cifar10, IsWrittenAsItIsRead) {
  std::string file = record("\x01", 1) + record("\x02", 2);
  EXPECT_EQ(io::write_cifar(io::parse_cifar(file, "x", 1), 1), file);
}

}  // namespace
}  // namespace reprise::data
