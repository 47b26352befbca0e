// Weights of which each rank has updated its shards, whole again on all ranks.
#pragma once

#include <optional>
#include <vector>

#include "reprise/distributed/data_parallel/data_parallel.h"
#include "reprise/distributed/data_parallel/gathering.h"

namespace reprise::distributed {

/// Gives all ranks each shard of the model's trained parameters as its owner has it, bucket by bucket: one is sent while what
/// comes before the next `start` is computed. Versions stay: what has updated the shards has told so of the whole parameters.
/// Those that are scattered stay so.
class WeightsGather {
 public:
  explicit WeightsGather(DataParallel& parallel);  ///< which outlives it

  /// Sends the own shards of a bucket, which are not to be changed any more, and takes what was sent before. All ranks make the
  /// same calls.
  void start(size_t bucket);
  /// Takes what is left.
  void finish();

 private:
  TensorView place_of(const Shard& shard) const;

  DataParallel& parallel_;
  std::optional<Gathering> coming_{};
};

/// Bytes that it takes meanwhile: of the buffers that are there at once, when they are most.
std::vector<size_t> gather_bytes(const DataParallel& parallel);

}  // namespace reprise::distributed
