// What the tests of a loader's memory share: photographs by a formula, and epochs after which nothing has grown.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "reprise/data/loader.h"
#include "reprise/data/recipes.h"
#include "reprise/io/folder.h"
#include "reprise/io/images/jpeg.h"
#include "reprise/tests/io/temp_folder.h"

namespace reprise::testing {

inline int64_t resident_bytes() {
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

/// `count` JPEG files of several sizes, in two classes.
inline std::string made_photos(const TempFolder& folder, int64_t count) {
  io::Image image;
  for (int64_t i = 0; i < count; ++i) {
    image.resize(40 + i % 30, 40 + i % 17, 3);
    for (size_t p = 0; p < image.pixels.size(); ++p) image.pixels[p] = uint8_t(p / 3 + size_t(i) * p % 19);
    folder.write("photos/" + std::to_string(i % 2) + "/" + std::to_string(i) + ".jpg",
                 io::encode_jpeg(image, 90));
  }
  return folder / "photos";
}

/// An epoch to warm up, then the others, which must take less than 1 MiB more, where what is freed is given back.
inline void expect_steady(const data::Dataset& set, int64_t epochs, const std::string& name,
                          bool memory_is_given_back = true) {
  constexpr int64_t batch = 20;
  const data::Pipeline pipeline = data::deit_train({.image = 32});
  data::ImageLoader loader(set, pipeline, {.batch = batch, .seed = 1, .workers = 2});
  const int64_t steps = set.size() / batch;
  auto run_epoch = [&](int64_t epoch) {
    for (int64_t step = 0; step < steps; ++step) loader.batch(epoch * steps + step);
  };
  run_epoch(0);
  const int64_t bytes = resident_bytes();
  const size_t descriptors = io::names_in("/proc/self/fd").size();
  for (int64_t epoch = 1; epoch < epochs; ++epoch) run_epoch(epoch);
  const int64_t growth = resident_bytes() - bytes;
  ::testing::Test::RecordProperty(name + "_growth", std::to_string(growth));
  EXPECT_TRUE(growth < 1 << 20 || !memory_is_given_back) << name << ": " << growth << " bytes more";
  // A worker that reads ahead may hold a file open at either count.
  EXPECT_NEAR(double(io::names_in("/proc/self/fd").size()), double(descriptors), 2) << name;
}

}  // namespace reprise::testing
