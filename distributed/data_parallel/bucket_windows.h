// BucketWindows: a flat buffer for each bucket of a DataParallel on GPUs, in memory that NCCL knows on all ranks.
//
// Note [Buffers that stay]
// The gradients of a bucket are views of the buffer that was sent, step after step. So nothing may hold one of them when the next
// step writes there. All ranks send from their windows, or none does: a program that keeps gradients of a step, on all ranks, has
// the next one's in ordinary memory. Where ranks differ in that, so do the labels of their calls, and that is a mismatch.
#pragma once

#include "reprise/distributed/data_parallel/buckets.h"
#include "reprise/distributed/process_group.h"

namespace reprise::distributed {

/// The buffers of all buckets that have one, kept between steps.
class BucketWindows {
 public:
  /// A call of all ranks. Of buckets on the group's GPU, where its NCCL has windows. `group` outlives it.
  BucketWindows(ProcessGroup& group, const std::vector<Bucket>& buckets, const TensorList& leaves);
  ~BucketWindows();
  BucketWindows(const BucketWindows&) = delete;

  /// The buffer of a bucket, (numel), once the call on it is done; undefined where it has none, or where something holds a part.
  Tensor take(size_t bucket);
  /// It is sent by this call.
  void sent(size_t bucket, const Work& work) { buffers_[bucket].call = work; }
  /// Whether the bucket has a buffer.
  bool has(size_t bucket) const { return buffers_[bucket].memory.defined(); }

 private:
  struct Buffer {
    Tensor memory{};  // of which others have views alone
    int64_t numel = 0;
    Work call{};  // the last one
  };
  ProcessGroup& group_;
  std::vector<Buffer> buffers_;
};

}  // namespace reprise::distributed
