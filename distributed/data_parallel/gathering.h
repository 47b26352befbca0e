// Gathering: the weights of a bucket, of which each rank has its shards, on their way to all ranks.
#pragma once

#include <functional>

#include "reprise/distributed/data_parallel/shards.h"
#include "reprise/distributed/process_group.h"

namespace reprise::distributed {

/// The weights of a bucket and who owns them.
struct SharedBucket {
  const TensorList& leaves;  ///< all that are trained, by place; what is undefined is left out
  const Bucket& bucket;      ///< of these
  const Shards& shards;      ///< of all of them
  size_t index;              ///< of the bucket there
  std::string label{};       ///< of the call
};

/// Bytes of the buffer that holds all ranks' parts of a bucket.
size_t gathering_bytes(const SharedBucket& of);

/// One bucket's weights, sent by its construction and taken by `finish`.
class Gathering {
 public:
  /// Where a shard's elements are: contiguous, of the leaf's dtype.
  using Place = std::function<TensorView(const Shard& shard)>;

  /// Sends the own shards, which are in `own`. All ranks make the same calls.
  Gathering(ProcessGroup& group, const SharedBucket& of, const Place& own);
  /// Waits, and puts the shards of all ranks, or of the others alone, into `places`.
  void finish(const Place& places, bool with_own);
  /// Waits: nobody wants them any more.
  void drop() { work_.wait(); }

 private:
  template <class Body>
  void for_each_shard(int rank, const Body& body);

  ProcessGroup& group_;
  SharedBucket of_;
  int64_t each_;  // bytes of a part
  Tensor parts_;
  Work work_;
};

/// Elements of a contiguous tensor, flat.
TensorView elements_of(const TensorView& x, const optim::ElementRange& range);

}  // namespace reprise::distributed
