// Shards: which elements of each bucket a rank owns, where ranks share gradients or an optimizer's state (ZeRO: Rajbhandari et
// al. 2020).
//
// Note [Cut at pieces]
// A bucket's parameters, one after another, are cut into one part per rank, about equally large. A cut lies between two
// pieces, of 16,384 elements of one parameter each: the sums of squares that make a norm, the draws of stochastic rounding and
// the blocks of 8-bit moments all lie within one, so that they do not know of the cuts. Parts are sent with padding at their
// ends: collectives take equal ones. Owners follow from the buckets and the number of ranks, and are stored nowhere.
#pragma once

#include "reprise/distributed/data_parallel/buckets.h"
#include "reprise/nn/optim/optimizer.h"

namespace reprise::distributed {

/// Some elements of a parameter, which begin at `offset` of their owner's part of a bucket.
struct Shard {
  size_t parameter = 0;       ///< its place in the list
  optim::ElementRange range;  ///< of its elements
  int64_t offset = 0;         ///< in elements
};

/// What each rank owns of each bucket, as a pure function of buckets, sizes and ranks.
class Shards {
 public:
  /// `numel`: of each parameter of the buckets, by place.
  Shards(const std::vector<Bucket>& buckets, const std::vector<int64_t>& numel, int ranks);

  int ranks() const { return ranks_; }  ///< that share
  /// Elements of each part of a bucket, with padding.
  int64_t part_numel(size_t bucket) const { return part_numel_[bucket]; }
  /// What a rank owns of a bucket, in its order; of each parameter at most one.
  const std::vector<Shard>& of(size_t bucket, int rank) const { return parts_[bucket][size_t(rank)]; }
  /// What a rank owns of a parameter; maybe no elements.
  const Shard& of_parameter(size_t parameter, int rank) const {
    return by_parameter_[parameter][size_t(rank)];
  }

 private:
  void cut(const Bucket& bucket, const std::vector<int64_t>& numel);

  int ranks_;
  std::vector<int64_t> part_numel_;
  std::vector<std::vector<std::vector<Shard>>> parts_;  // by bucket and rank
  std::vector<std::vector<Shard>> by_parameter_;        // by parameter and rank
};

}  // namespace reprise::distributed
