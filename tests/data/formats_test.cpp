// The same images and labels in every format of a data set are the same data set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "reprise/autograd/ops.h"
#include "reprise/data/datasets/cifar.h"
#include "reprise/data/datasets/idx_dataset.h"
#include "reprise/data/datasets/image_folder.h"
#include "reprise/data/datasets/pack.h"
#include "reprise/data/datasets/tar_shards.h"
#include "reprise/data/loader.h"
#include "reprise/data/recipes.h"
#include "reprise/io/arrays/idx.h"
#include "reprise/io/cifar.h"
#include "reprise/io/folder.h"
#include "reprise/io/gzip.h"
#include "reprise/io/images/png.h"
#include "reprise/nn/models/vit.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/tests/io/images/golden_images.h"
#include "reprise/tests/io/temp_folder.h"

namespace reprise::data {
namespace {

using reprise::testing::expect_same_image;
using reprise::testing::TempFolder;

constexpr int64_t side = io::cifar_side;

// Gray images, in the order of their classes, as folders have them.
struct Images {
  std::vector<io::Image> images{};
  std::string labels{};
  int64_t size() const { return int64_t(images.size()); }
  const io::Image& operator[](int64_t i) const { return images[size_t(i)]; }
  int64_t label(int64_t i) const { return uint8_t(labels[size_t(i)]); }

  // Puts an image into the middle of CIFAR's size, on black.
  void add(const io::Image& small, int64_t label) {
    io::Image image;
    image.resize(side, side, 1);
    for (int64_t y = 0; y < small.height; ++y)
      std::copy_n(small.row(y), small.width,
                  image.row(y + (side - small.height) / 2) + (side - small.width) / 2);
    images.push_back(std::move(image));
    labels += char(label);
  }
};

Images made() {
  Images all;
  io::Image image;
  image.resize(side, side, 1);
  for (int64_t i = 0; i < 12; ++i) {
    for (int64_t p = 0; p < side * side; ++p) image.pixels[size_t(p)] = uint8_t(i * 37 + p * p / 7);
    all.add(image, i / 4);
  }
  return all;
}

// The first ones of the test part.
Images of_fashion_mnist(int64_t count) {
  const PixelDataset set = fashion_mnist(Split::test);
  Images all;
  io::Image image;
  for (int64_t label = 0; label < set.classes(); ++label)
    for (int64_t i = 0; i < count; ++i) {
      if (set.label(i) != label) continue;
      set.read(i, {.channels = 1}, image);
      all.add(image, label);
    }
  return all;
}

PixelDataset in_idx(const Images& images, const TempFolder& folder) {
  io::IdxArray pixels{.shape = {images.size(), side, side}, .bytes = {}},
      labels{.shape = {images.size()}, .bytes = images.labels};
  for (const io::Image& image : images.images) pixels.bytes.append(image.pixels.begin(), image.pixels.end());
  return idx_dataset(folder.write("idx/images.gz", io::gzip(io::write_idx(pixels))),
                     folder.write("idx/labels", io::write_idx(labels)));
}

PixelDataset in_cifar(const Images& images, const TempFolder& folder) {
  io::CifarImages all{.images = {}, .labels = images.labels};
  for (const io::Image& image : images.images)
    for (uint8_t value : image.pixels) all.images += std::string(3, char(value));
  folder.write("cifar/test_batch.bin", io::write_cifar(all, 1));
  return cifar10(folder / "cifar", Split::test);
}

ImageFolder in_folders(const Images& images, const TempFolder& folder) {
  for (int64_t i = 0; i < images.size(); ++i)
    folder.write("photos/" + std::to_string(images.label(i)) + "/" + std::to_string(1000 + i) + ".png",
                 io::encode_png(images[i]));
  return ImageFolder(folder / "photos");
}

// By pack, two shards of them.
TarShards in_shards(const Dataset& set, const TempFolder& folder) {
  folder.write("shards/packed", "");
  const auto bytes = uint64_t(set.size()) * 900;  // half of what an image, its label and their headers take
  const Packed packed = pack(set, folder / "shards", {.png = true, .shard_bytes = bytes});
  EXPECT_GE(packed.shards, 2);
  return TarShards(shards_in(folder / "shards"));
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
  const Images images = made();
  const PixelDataset idx = in_idx(images, folder);
  ASSERT_EQ(idx.size(), 12);
  expect_same_set(in_cifar(images, folder), idx, "cifar");
  expect_same_set(in_folders(images, folder), idx, "folders");
  expect_same_set(in_shards(idx, folder), idx, "shards");
}

// The weights after two steps, an epoch's end between them.
std::vector<float> trained_on(const Dataset& set) {
  manual_seed(3);
  nn::Vit model(
      {.image = side, .patch = 8, .channels = 1, .classes = 10, .width = 16, .layers = 1, .heads = 2});
  optim::AdamW optimizer(model.parameters());
  const Pipeline pipeline = fashion_train({.image = side});
  ImageLoader loader(set, pipeline, {.batch = set.size() * 2 / 3, .seed = 3, .workers = 2});
  for (int64_t step = 0; step < 2; ++step) {
    ImageBatch batch = loader.batch(step);
    cross_entropy(model(batch.images), batch.targets).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  std::vector<float> weights;
  for (const Tensor& parameter : model.parameters())
    for (float value : parameter.to_vector<float>()) weights.push_back(value);
  return weights;
}

TEST(Formats, TrainFashionMnistToTheSameBits) {
  if (!io::exists("/usr/share/datasets/fashion-mnist"))
    GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  TempFolder folder;
  const Images images = of_fashion_mnist(300);
  ASSERT_EQ(images.size(), 300);
  const PixelDataset idx = in_idx(images, folder);
  const std::vector<float> want = trained_on(idx);
  ASSERT_TRUE(std::isfinite(want.at(0)));
  EXPECT_TRUE(trained_on(in_cifar(images, folder)) == want) << "cifar";
  EXPECT_TRUE(trained_on(in_folders(images, folder)) == want) << "folders";
  EXPECT_TRUE(trained_on(in_shards(idx, folder)) == want) << "shards";
}

}  // namespace
}  // namespace reprise::data
