// Order: which image each row of a run is. A run is a sequence of positions; epoch after epoch of them, each
// image `repeats` times per epoch, with nothing dropped and nothing padded.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

namespace reprise::data {

/// The images 0 to N - 1 in an order drawn from (seed, epoch). With R repeats of each image (repeated
/// augmentation, Hoffer et al. 2020) two images take turns, a b a b a b, so that neighbours, which mixing
/// pairs, differ; the last image of an odd N stands alone. Thread-safe.
class Order {
 public:
  /// One image on its way through one epoch.
  struct Sample {
    int64_t epoch = 0;   ///< from 0 on
    int64_t index = 0;   ///< of the image, in [0, N)
    int64_t repeat = 0;  ///< in [0, repeats)
    uint64_t key = 0;    ///< (epoch N + index) R + repeat: what the sample's draws are keyed by
    /// Equal in all fields.
    friend bool operator==(const Sample&, const Sample&) = default;
  };

  /// Error unless images, in [1, 2^32), and repeats are positive.
  Order(int64_t images, uint64_t seed, int64_t repeats = 1);

  int64_t positions_per_epoch() const { return images_ * repeats_; }  ///< N R
  /// The sample at a position of the run, position = step x rows per step + row. Error if it is below 0.
  Sample at(int64_t position) const;

 private:
  struct Epoch {
    int64_t epoch = -1;
    std::vector<uint32_t> permutation;
  };
  uint32_t image_at(int64_t epoch, int64_t slot) const;

  int64_t images_, repeats_;
  uint64_t seed_;
  mutable std::mutex mutex_;
  mutable std::array<Epoch, 2> epochs_;  ///< an epoch and the next: batches straddle them, workers run ahead
};

/// A permutation of 0 to images - 1, uniform over the seeds: Fisher and Yates, from Philox. Written into
/// `permutation`, whose memory is used again.
void permute(int64_t images, uint64_t seed, int64_t epoch, std::vector<uint32_t>& permutation);

}  // namespace reprise::data
