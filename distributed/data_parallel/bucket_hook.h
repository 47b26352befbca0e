// BucketHook: how a bucket of gradients is added over ranks, where that is not the sum in the tree's order.
#pragma once

#include <functional>
#include <string>

#include "reprise/distributed/process_group.h"

namespace reprise::distributed {

/// The gradients of some parameters, one after another.
struct GradientBucket {
  /// In DataParallel::buckets, which are others after the first step with BucketOrder::arrival.
  size_t index = 0;
  std::string label{};  ///< names it in errors
  /// Over this rank's micro-batches, (n); becomes the sum over all ranks. Where gradients are scattered: the parts of all ranks,
  /// one after another, (ranks part_numel).
  Tensor sums{};
  int64_t part_numel = 0;  ///< of a rank's part, where gradients are scattered; else 0
  /// Where they are, the hook makes it: this rank's part of the sum over all ranks, (part_numel).
  Tensor part{};
  /// Called by the thread that waits once the hook's work is done, and `sums` or `part` is to be the result after it; may be empty.
  /// Where gradients are scattered, that is before the next bucket but one is begun.
  std::function<void()> finish{};
};

/// Begins to add a bucket over the ranks of a group and returns what is to be waited for. It is called on all ranks for the
/// same buckets in the same order, while backward still runs. The order of sums is the hook's: bits may depend on
/// the number of ranks.
using BucketHook = std::function<Work(GradientBucket& bucket, ProcessGroup& group)>;

/// Sends gradients in `dtype`, bf16 or f16: half the bytes of f32, and rounded going in, in each sum of two and coming out. They
/// have the same bits scattered and whole.
/// Buckets that are of 16 bits already are sent as they are. Error for other dtypes.
BucketHook compressed(DType dtype);

}  // namespace reprise::distributed
