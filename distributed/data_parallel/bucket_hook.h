// BucketHook: how a bucket of gradients is added over ranks, where that is not the sum in the tree's order.
#pragma once

#include <functional>
#include <string>

#include "reprise/distributed/process_group.h"

namespace reprise::distributed {

/// The gradients of some parameters, one after another.
struct GradientBucket {
  size_t index = 0;     ///< in DataParallel::buckets
  std::string label{};  ///< names it in errors
  Tensor sums{};        ///< over this rank's micro-batches, (n); becomes the sum over all ranks
  /// Called by the thread that waits once the hook's work is done, and `sums` is to be the result after it; may be empty.
  std::function<void()> finish{};
};

/// Begins to add a bucket over the ranks of a group and returns what is to be waited for. It is called on all ranks for the
/// same buckets in the same order, while backward still runs. The order of sums is the hook's: bits may depend on
/// the number of ranks.
using BucketHook = std::function<Work(GradientBucket& bucket, ProcessGroup& group)>;

/// Sends gradients in `dtype`, bf16 or f16: half the bytes of f32, and rounded going in, in each sum of two and coming out.
/// Buckets that are of 16 bits already are sent as they are. Error for other dtypes.
BucketHook compressed(DType dtype);

}  // namespace reprise::distributed
