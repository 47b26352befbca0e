// Images by a formula, for tests of what reads, orders and batches them.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "reprise/data/dataset.h"

namespace reprise::testing {

/// `count` colour images of 6 x 5 pixels; image i is of class i % 3, and the value at (y, x, c) is 17 i + 31 y + 7 x + c,
/// modulo 256. Those in `bad` cannot be read.
class CountedImages : public data::Dataset {
 public:
  static constexpr int64_t height = 6, width = 5, channels = 3;
  static uint8_t value(int64_t i, int64_t y, int64_t x, int64_t c) {
    return uint8_t(17 * i + 31 * y + 7 * x + c);
  }

  explicit CountedImages(int64_t count, std::set<int64_t> bad = {}) : count_(count), bad_(std::move(bad)) {}
  int64_t size() const override { return count_; }
  const std::vector<std::string>& class_names() const override { return names_; }
  int64_t label(int64_t index) const override { return index % 3; }
  std::string name(int64_t index) const override { return "image " + std::to_string(index); }
  void read(int64_t index, const io::DecodeOptions& options, io::Image& image) const override {
    check_index(index);
    check(!bad_.contains(index), "counted-", index, ".png: made bad");
    io::Box box{0, 0, height, width};
    if (options.region) box = options.region(height, width);
    image.resize(box.height, box.width, channels);
    for (int64_t y = 0; y < box.height; ++y)
      for (int64_t i = 0; i < box.width * channels; ++i)
        image.row(y)[i] = value(index, box.top + y, box.left + i / channels, i % channels);
  }

 private:
  int64_t count_;
  std::set<int64_t> bad_;
  std::vector<std::string> names_{"first", "second", "third"};
};

}  // namespace reprise::testing
