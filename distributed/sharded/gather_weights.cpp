#include "reprise/distributed/sharded/gather_weights.h"

#include <algorithm>
#include <optional>

#include "reprise/autograd/grad_mode.h"
#include "reprise/kernels/elementwise/copy.h"

namespace reprise::distributed {
namespace {

constexpr int64_t alignment = 16;  // bytes: a bucket may have weights of several dtypes

int64_t bytes_of(const DataParallel& parallel, const Shard& shard) {
  const int64_t bytes = shard.range.count() * int64_t(size_of(parallel.leaves()[shard.parameter].dtype()));
  return (bytes + alignment - 1) / alignment * alignment;
}

// Of the largest part of a bucket.
int64_t part_bytes(const DataParallel& parallel, size_t bucket) {
  int64_t most = 0;
  for (int rank = 0; rank < parallel.shards().ranks(); ++rank) {
    int64_t bytes = 0;
    for (const Shard& shard : parallel.shards().of(bucket, rank)) bytes += bytes_of(parallel, shard);
    most = std::max(most, bytes);
  }
  return most;
}

// A bucket's parts, of which this rank's are filled in and the others' on their way.
class Gathering {
 public:
  Gathering(DataParallel& parallel, size_t bucket)
      : parallel_(parallel), bucket_(bucket), each_(part_bytes(parallel, bucket)) {
    MemoryScope scope(MemoryCategory::workspace);
    const int rank = parallel.group().rank();
    const Device device = parallel.leaves()[parallel.buckets()[bucket].parameters.front()].device();
    parts_ = Tensor::empty({each_ * parallel.group().size()}, DType::u8, device);
    copy(rank, [](const Stream& stream, const TensorView& weights, const TensorView& part) {
      kernels::copy(stream, weights, part);
    });
    work_ = parallel.group().all_gather(parts_, parts_.slice(0, rank * each_, (rank + 1) * each_),
                                        detail::join("weights of bucket ", bucket));
  }

  void finish() {
    work_.wait();
    for (int rank = 0; rank < parallel_.group().size(); ++rank)
      if (rank != parallel_.group().rank())
        copy(rank, [](const Stream& stream, const TensorView& weights, const TensorView& part) {
          kernels::copy(stream, part, weights);
        });
  }

 private:
  // Calls body with each shard of a rank, in its parameter and in the rank's part.
  template <class Body>
  void copy(int rank, const Body& body) {
    char* at = reinterpret_cast<char*>(parts_.view().data) + rank * each_;
    for (const Shard& shard : parallel_.shards().of(bucket_, rank)) {
      TensorView weights = parallel_.leaves()[shard.parameter].view();
      weights.data = static_cast<char*>(weights.data) + shard.range.begin * int64_t(size_of(weights.dtype));
      weights.shape = {shard.range.count()};
      weights.strides = {1};
      TensorView part = weights;
      part.data = at;
      body(current_stream(weights.device), weights, part);
      at += bytes_of(parallel_, shard);
    }
  }

  DataParallel& parallel_;
  size_t bucket_;
  int64_t each_;
  Tensor parts_;
  Work work_;
};

}  // namespace

void gather_weights(DataParallel& parallel) {
  if (parallel.group().size() == 1) return;
  NoGrad guard;
  std::optional<Gathering> before;
  for (size_t bucket = 0; bucket < parallel.buckets().size(); ++bucket) {
    Gathering next(parallel, bucket);
    if (before) before->finish();
    before.emplace(std::move(next));
  }
  if (before) before->finish();
}

std::vector<size_t> gather_bytes(const DataParallel& parallel) {
  std::vector<size_t> bytes;  // two buckets are under way at once
  for (size_t bucket = 0; bucket < parallel.buckets().size(); ++bucket)
    bytes.push_back(size_t(part_bytes(parallel, bucket)) * size_t(parallel.shards().ranks()));
  std::ranges::sort(bytes, std::greater());
  bytes.resize(std::min<size_t>(bytes.size(), 2));
  return bytes;
}

}  // namespace reprise::distributed
