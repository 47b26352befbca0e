// Positions to samples, and the permutation of an epoch.
#include "reprise/data/order.h"

#include <numeric>
#include <utility>

#include "reprise/core/error.h"
#include "reprise/data/draws.h"

namespace reprise::data {

Order::Order(int64_t images, uint64_t seed, int64_t repeats)
    : images_(images), repeats_(repeats), seed_(seed) {
  check(images > 0 && images < int64_t(1) << 32,
        "order: the number of images must be in [1, 2^32): ", images);
  check(repeats > 0, "order: the number of repeats must be positive: ", repeats);
}

Order::Sample Order::at(int64_t position) const {
  check(position >= 0, "order: a position is below 0: ", position);
  const int64_t epoch = position / positions_per_epoch(), place = position % positions_per_epoch();
  const int64_t first = place / (2 * repeats_) * 2;  // of the two images that take turns here
  const int64_t turns = first + 1 < images_ ? 2 : 1;
  const int64_t turn = place - first * repeats_;
  Sample sample{.epoch = epoch, .index = image_at(epoch, first + turn % turns), .repeat = turn / turns};
  sample.key = (uint64_t(epoch) * uint64_t(images_) + uint64_t(sample.index)) * uint64_t(repeats_) +
               uint64_t(sample.repeat);
  return sample;
}

uint32_t Order::image_at(int64_t epoch, int64_t slot) const {
  const std::lock_guard lock(mutex_);
  Epoch& kept = epochs_[size_t(epoch % 2)];
  if (kept.epoch != epoch) {
    kept.epoch = -1;  // should memory run out on the way
    permute(images_, seed_, epoch, kept.permutation);
    kept.epoch = epoch;
  }
  return kept.permutation[size_t(slot)];
}

void permute(int64_t images, uint64_t seed, int64_t epoch, std::vector<uint32_t>& permutation) {
  permutation.resize(size_t(images));
  std::iota(permutation.begin(), permutation.end(), 0u);
  const uint64_t key = seed_for(Use::order, seed);
  std::array<uint32_t, 4> words{};
  for (int64_t i = images - 1, draw = 0; i > 0; --i, ++draw) {  // a block is two draws of 64 bits
    if (draw % 2 == 0) words = philox_block(key, uint64_t(epoch), uint64_t(draw / 2));
    const size_t word = size_t(draw % 2) * 2;
    const int64_t j = bits_below(uint64_t(words[word + 1]) << 32 | words[word], i + 1);
    std::swap(permutation[size_t(i)], permutation[size_t(j)]);
  }
}

}  // namespace reprise::data
