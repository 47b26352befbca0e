// The same images and labels in every format of a data set are the same data set.
#include <gtest/gtest.h>

#include "reprise/data/datasets/cifar.h"
#include "reprise/data/datasets/idx_dataset.h"
#include "reprise/data/datasets/image_folder.h"
#include "reprise/data/datasets/tar_shards.h"
#include "reprise/io/cifar.h"
#include "reprise/io/gzip.h"
#include "reprise/io/idx.h"
#include "reprise/io/images/png.h"
#include "reprise/io/tar.h"
#include "reprise/tests/io/images/golden_images.h"
#include "reprise/tests/io/temp_folder.h"

namespace reprise::data {
namespace {

using reprise::testing::expect_same_image;
using reprise::testing::TempFolder;

constexpr int64_t images = 12, side = 32;  // as large as CIFAR's

uint8_t pixel(int64_t i, int64_t p) { return uint8_t(i * 37 + p * p / 7); }
int64_t label(int64_t i) { return i / 4; }

PixelDataset in_idx(const TempFolder& folder) {
  io::IdxArray pixels{.shape = {images, side, side}, .bytes = {}}, labels{.shape = {images}, .bytes = {}};
  for (int64_t i = 0; i < images; ++i) {
    labels.bytes += char(label(i));
    for (int64_t p = 0; p < side * side; ++p) pixels.bytes += char(pixel(i, p));
  }
  return idx_dataset(folder.write("idx/images.gz", io::gzip(io::write_idx(pixels))),
                     folder.write("idx/labels", io::write_idx(labels)));
}

io::Image gray_image(int64_t i) {
  io::Image image;
  image.resize(side, side, 1);
  for (int64_t p = 0; p < side * side; ++p) image.pixels[size_t(p)] = pixel(i, p);
  return image;
}

PixelDataset in_cifar(const TempFolder& folder) {
  io::CifarImages all;
  for (int64_t i = 0; i < images; ++i) {
    all.labels += char(label(i));
    for (uint8_t value : gray_image(i).pixels) all.images += std::string(3, char(value));
  }
  folder.write("cifar/test_batch.bin", io::write_cifar(all, 1));
  return cifar10(folder / "cifar", Split::validation);
}

ImageFolder in_folders(const TempFolder& folder) {
  for (int64_t i = 0; i < images; ++i)
    folder.write("photos/" + std::to_string(label(i)) + "/" + char('a' + i) + ".png",
                 io::encode_png(gray_image(i)));
  return ImageFolder(folder / "photos");
}

TarShards in_shards(const TempFolder& folder) {
  for (int64_t first : {0, 7}) {
    io::TarWriter shard(folder / ("shard-" + std::to_string(first) + ".tar"));
    for (int64_t i = first; i < (first == 0 ? 7 : images); ++i) {
      shard.add(std::to_string(i) + ".png", io::encode_png(gray_image(i)));
      shard.add(std::to_string(i) + ".cls", std::to_string(label(i)));
    }
    shard.commit();
  }
  return TarShards(shards_in(folder.path()));
}

void expect_same_set(const Dataset& got, const Dataset& want, const std::string& name) {
  ASSERT_EQ(got.size(), want.size()) << name;
  io::Image got_image, want_image;
  for (int64_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got.label(i), want.label(i)) << name << ' ' << i;
    got.read(i, {}, got_image);
    want.read(i, {}, want_image);
    expect_same_image(got_image, want_image, name + " " + std::to_string(i));
  }
}

TEST(Formats, HoldTheSameImages) {
  TempFolder folder;
  PixelDataset idx = in_idx(folder);
  ASSERT_EQ(idx.size(), images);
  expect_same_set(in_cifar(folder), idx, "cifar");
  expect_same_set(in_folders(folder), idx, "folders");
  expect_same_set(in_shards(folder), idx, "shards");
}

}  // namespace
}  // namespace reprise::data
