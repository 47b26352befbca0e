// A loader of files takes no more memory, and no more descriptors, the longer it runs.
// labels: concurrency
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "reprise/data/datasets/image_folder.h"
#include "reprise/data/datasets/pack.h"
#include "reprise/data/datasets/tar_shards.h"
#include "reprise/data/loader.h"
#include "reprise/data/recipes.h"
#include "reprise/io/folder.h"
#include "reprise/io/images/jpeg.h"
#include "reprise/tests/io/temp_folder.h"

namespace reprise::data {
namespace {

using reprise::testing::TempFolder;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool memory_is_given_back = false;  // the sanitizer keeps some of what was freed
#else
constexpr bool memory_is_given_back = true;
#endif

constexpr int64_t count = 300, batch = 20, epochs = 6;

int64_t resident_bytes() {
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// JPEG files of several sizes, in two classes.
std::string made_photos(const TempFolder& folder) {
  io::Image image;
  for (int64_t i = 0; i < count; ++i) {
    image.resize(40 + i % 30, 40 + i % 17, 3);
    for (size_t p = 0; p < image.pixels.size(); ++p) image.pixels[p] = uint8_t(p / 3 + size_t(i) * p % 19);
    folder.write("photos/" + std::to_string(i % 2) + "/" + std::to_string(i) + ".jpg",
                 io::encode_jpeg(image, 90));
  }
  return folder / "photos";
}

// An epoch to warm up, then five more.
void expect_steady(const Dataset& set, const std::string& name) {
  const Pipeline pipeline = deit_train({.image = 32});
  ImageLoader loader(set, pipeline, {.batch = batch, .seed = 1, .workers = 2});
  auto run_epoch = [&](int64_t epoch) {
    for (int64_t step = 0; step < count / batch; ++step) loader.batch(epoch * count / batch + step);
  };
  run_epoch(0);
  const int64_t bytes = resident_bytes();
  const size_t descriptors = io::names_in("/proc/self/fd").size();
  for (int64_t epoch = 1; epoch < epochs; ++epoch) run_epoch(epoch);
  EXPECT_TRUE(resident_bytes() - bytes < 1 << 20 || !memory_is_given_back)
      << name << ": " << resident_bytes() - bytes << " bytes more";
  // A worker that reads ahead may hold a file open at either count.
  EXPECT_NEAR(double(io::names_in("/proc/self/fd").size()), double(descriptors), 2) << name;
}

TEST(Loader, StaysInMemory) {
  TempFolder folder;
  const ImageFolder photos(made_photos(folder));
  expect_steady(photos, "folder");
  folder.write("shards/packed", "");
  pack(photos, folder / "shards");
  expect_steady(TarShards(shards_in(folder / "shards")), "shards");
}

}  // namespace
}  // namespace reprise::data
