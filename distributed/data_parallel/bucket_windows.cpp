#include "reprise/distributed/data_parallel/bucket_windows.h"

namespace reprise::distributed {

BucketWindows::BucketWindows(ProcessGroup& group, const std::vector<Bucket>& buckets,
                             const TensorList& leaves)
    : group_(group) {
  MemoryScope scope(MemoryCategory::gradients);
  for (size_t b = 0; b < buckets.size(); ++b) {
    const Bucket& bucket = buckets[b];
    Buffer& buffer = buffers_.emplace_back(Buffer{.numel = bucket.numel});
    if (leaves[bucket.parameters.front()].device().is_cuda() && bucket.numel > 0)
      buffer.memory = group.make_window(bucket.numel, bucket.dtype, detail::join("bucket ", b));
  }
}

BucketWindows::~BucketWindows() {
  for (const Buffer& buffer : buffers_) {
    try {
      if (buffer.memory.defined()) group_.end_window(buffer.memory);
    } catch (const std::bad_alloc&) {}  // it ends with the group
  }
}

Tensor BucketWindows::take(size_t bucket) {
  Buffer& buffer = buffers_[bucket];
  buffer.call.synchronize();  // until then the call itself holds the buffer
  const bool is_free = buffer.memory.defined() && buffer.memory.storage().use_count() == 1;
  return is_free ? buffer.memory.slice(0, 0, buffer.numel) : Tensor();
}

}  // namespace reprise::distributed
