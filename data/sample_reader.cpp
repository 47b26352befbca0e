#include "reprise/data/sample_reader.h"

#include <algorithm>

#include "reprise/core/error.h"

namespace reprise::data {
namespace {

constexpr uint64_t most_attempts = 10;
constexpr int64_t few_images = 10, of_hundred = 100;  // so many may be bad, or one of so many

}  // namespace

SampleReader::SampleReader(const Dataset& dataset, uint64_t seed, BadImages bad_images)
    : dataset_(dataset), seed_(seed), policy_(bad_images) {}

void SampleReader::read(const Pipeline& pipeline, const Order::Sample& sample, std::span<uint8_t> row,
                        TransformScratch& scratch) {
  Order::Sample tried = sample;
  for (uint64_t attempt = 0;; ++attempt) {
    try {
      return pipeline.read(dataset_, tried, seed_, row, scratch);
    } catch (const Error& error) {
      std::string message = error.what();
      if (policy_ == BadImages::error)
        fail(message, " (image ", sample.index, " in epoch ", sample.epoch, ")");
      note(tried.index, message);
      check(attempt < most_attempts, message, " (and nor could the ", most_attempts,
            " images that were to stand in for image ", sample.index, " in epoch ", sample.epoch, ")");
    }
    tried.index = substitute_for(sample, attempt);
  }
}

void SampleReader::note(int64_t index, const std::string& reason) {
  std::lock_guard lock(mutex_);
  bad_.emplace(index, reason);
  int64_t most = std::max(few_images, dataset_.size() / of_hundred);
  check(int64_t(bad_.size()) <= most, "more than ", most, " of ", dataset_.size(),
        " images cannot be read; the last: ", reason);
}

int64_t SampleReader::substitute_for(const Order::Sample& sample, uint64_t attempt) {
  std::call_once(listed_, [&] {
    images_of_class_.resize(size_t(dataset_.classes()));
    for (int64_t i = 0; i < dataset_.size(); ++i)
      images_of_class_[size_t(dataset_.label(i))].push_back(uint32_t(i));
  });
  const std::vector<uint32_t>& images = images_of_class_[size_t(dataset_.label(sample.index))];
  uint64_t sample_of_epoch = uint64_t(sample.epoch) * uint64_t(dataset_.size()) + uint64_t(sample.index);
  Draws draws(seed_for(Use::substitute, seed_), sample_of_epoch, attempt, 1);
  return images[size_t(draws.below(int64_t(images.size())))];
}

std::vector<std::string> SampleReader::bad_images() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> all;
  for (const auto& [index, reason] : bad_) all.push_back(reason);
  return all;
}

}  // namespace reprise::data
