// SampleReader: samples of a dataset through pipelines, and what becomes of images that cannot be read.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "reprise/data/bad_images.h"
#include "reprise/data/pipeline.h"

namespace reprise::data {

/// Thread-safe. The dataset must outlive it.
class SampleReader {
 public:
  SampleReader(const Dataset& dataset, uint64_t seed, BadImages bad_images);

  /// The row that `pipeline` makes of a sample, u8 (height, width, channels). Error naming image, index and epoch if it
  /// cannot be read and nothing may stand in, or once more than 10 images and 1 % of all cannot be read.
  void read(const Pipeline& pipeline, const Order::Sample& sample, std::span<uint8_t> row,
            TransformScratch& scratch);

  /// "photos/a.jpg: ends after 17 of 4,711 bytes" for each image that could not be read so far, sorted.
  std::vector<std::string> bad_images() const;

 private:
  void note(int64_t index, const std::string& reason);
  int64_t substitute_for(const Order::Sample& sample, uint64_t attempt);

  const Dataset& dataset_;
  const uint64_t seed_;
  const BadImages policy_;
  mutable std::mutex mutex_;
  std::set<std::pair<int64_t, std::string>> bad_;  // index and reason
  std::once_flag listed_;
  std::vector<std::vector<uint32_t>> images_of_class_;  // made when the first image fails
};

}  // namespace reprise::data
