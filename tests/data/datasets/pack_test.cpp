// Packed images are the data set's, in its order and with its labels; large ones are smaller.
#include "reprise/data/datasets/pack.h"

#include <gtest/gtest.h>

#include "reprise/data/datasets/tar_shards.h"
#include "reprise/data/transforms/resize.h"
#include "reprise/io/file.h"
#include "reprise/io/folder.h"
#include "reprise/io/images/png.h"
#include "reprise/io/tar.h"
#include "reprise/tests/data/counted_images.h"
#include "reprise/tests/io/images/golden_images.h"
#include "reprise/tests/io/temp_folder.h"

namespace reprise::data {
namespace {

using reprise::testing::CountedImages;
using reprise::testing::expect_error;
using reprise::testing::expect_same_image;
using reprise::testing::TempFolder;
using Names = std::vector<std::string>;

io::Image image_of(const Dataset& set, int64_t index, int64_t channels = 3) {
  io::Image image;
  set.read(index, {.channels = channels}, image);
  return image;
}

Names names_in_tar(const std::string& path) {
  Names names;
  for (const io::TarEntry& entry : io::read_tar(io::File::open(path))) names.push_back(entry.name);
  return names;
}

TEST(Pack, KeepsImagesOrderAndClasses) {
  TempFolder folder;
  const CountedImages images(150);  // more than are encoded at once
  Packed packed = pack(images, folder.path(), {.png = true, .shard_bytes = 100 << 10});
  EXPECT_EQ(packed.images, 150);
  EXPECT_GT(packed.shards, 1);
  TarShards shards(shards_in(folder.path()));
  EXPECT_EQ(shards.class_names(), images.class_names());
  ASSERT_EQ(shards.size(), 150);
  for (int64_t i = 0; i < 150; ++i) {
    EXPECT_EQ(shards.label(i), images.label(i));
    expect_same_image(image_of(shards, i), image_of(images, i), "image " + std::to_string(i));
  }
}

TEST(Pack, WritesWebDatasetsNames) {
  TempFolder folder;
  pack(CountedImages(5), folder.path(), {.shard_bytes = 6 * 512});
  EXPECT_EQ(names_in_tar(folder / "shard-00000.tar"),
            (Names{"000000000.jpg", "000000000.cls", "000000001.jpg", "000000001.cls"}));
  EXPECT_EQ(names_in_tar(folder / "shard-00002.tar"), (Names{"000000004.jpg", "000000004.cls"}));
  EXPECT_EQ(io::read_file(folder / "classes.txt"), "first\nsecond\nthird\n");
  EXPECT_EQ(io::names_in(folder.path()).size(), 4u);
}

TEST(Pack, ShrinksLargeImagesAlone) {
  TempFolder folder;
  const CountedImages images(3);  // 6 x 5
  pack(images, folder / "", {.short_side = 4, .png = true});
  TransformScratch scratch;
  Draws none(0, 0, 0, 0);
  io::Image want = image_of(images, 1);
  Resize({.size = 4}).apply(want, none, scratch);
  EXPECT_EQ(want.width, 4);
  expect_same_image(image_of(TarShards(shards_in(folder / "")), 1), want, "shrunk");
  TempFolder kept;
  pack(images, kept.path(), {.short_side = 5, .png = true});
  expect_same_image(image_of(TarShards(shards_in(kept.path())), 1), image_of(images, 1), "kept");
}

// JPEG of quality 90: a smooth image stays within a few levels.
TEST(Pack, JpegIsNearTheImage) {
  class Smooth : public CountedImages {
   public:
    Smooth() : CountedImages(2) {}
    void read(int64_t, const io::DecodeOptions& options, io::Image& image) const override {
      image.resize(64, 48, options.channels);
      for (int64_t y = 0; y < 64; ++y)
        for (int64_t i = 0; i < image.row_bytes(); ++i)
          image.row(y)[i] = uint8_t(40 + y + i / options.channels);  // without colour
    }
  } smooth;
  TempFolder folder;
  pack(smooth, folder.path());
  TarShards shards(shards_in(folder.path()));
  io::Image got = image_of(shards, 0), want = image_of(smooth, 0);
  ASSERT_EQ(got.pixels.size(), want.pixels.size());
  for (size_t i = 0; i < got.pixels.size(); ++i)
    ASSERT_LE(std::abs(int(got.pixels[i]) - int(want.pixels[i])), 4) << i;
  // Baseline JPEG's frame header: FF C0, length, precision, height, width, the number of components.
  std::string tar = io::read_file(folder / "shard-00000.tar");
  size_t frame = tar.find(std::string("\xff\xc0\x00\x0b\x08\x00\x40\x00\x30", 9));
  ASSERT_NE(frame, std::string::npos);
  EXPECT_EQ(tar[frame + 9], 1) << "gray, as it has no colour";
}

TEST(Pack, NamesWhatCannotBePacked) {
  TempFolder folder;
  const CountedImages images(100, {7, 70});
  expect_error([&] { pack(images, folder.path()); }, "counted-7.png: made bad", "image 7");
  EXPECT_TRUE(io::names_in(folder.path()).empty()) << "an unfinished shard appeared";
  Packed packed = pack(images, folder.path(), {.skip_bad = true});
  EXPECT_EQ(packed.images, 98);
  EXPECT_EQ(packed.bad_images, (Names{"counted-7.png: made bad", "counted-70.png: made bad"}));
  TarShards shards(shards_in(folder.path()));
  EXPECT_EQ(shards.size(), 98);
  EXPECT_EQ(shards.label(7), images.label(8));
  expect_error([&] { pack(images, folder.path(), {.quality = 0}); }, "quality 0");
}

}  // namespace
}  // namespace reprise::data
