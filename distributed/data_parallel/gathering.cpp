#include "reprise/distributed/data_parallel/gathering.h"

#include <algorithm>

#include "reprise/kernels/elementwise/copy.h"

namespace reprise::distributed {
namespace {

constexpr int64_t alignment = 16;  // bytes: a bucket may have weights of several dtypes

int64_t bytes_of(const SharedBucket& of, const Shard& shard) {
  if (!of.leaves[shard.parameter].defined()) return 0;
  const int64_t bytes = shard.range.count() * int64_t(size_of(of.leaves[shard.parameter].dtype()));
  return (bytes + alignment - 1) / alignment * alignment;
}

// Of the largest part of a bucket.
int64_t part_bytes(const SharedBucket& of) {
  int64_t most = 0;
  for (int rank = 0; rank < of.shards.ranks(); ++rank) {
    int64_t bytes = 0;
    for (const Shard& shard : of.shards.of(of.index, rank)) bytes += bytes_of(of, shard);
    most = std::max(most, bytes);
  }
  return most;
}

}  // namespace

TensorView elements_of(const TensorView& x, const optim::ElementRange& range) {
  TensorView part = x;
  part.data = static_cast<char*>(x.data) + range.begin * int64_t(size_of(x.dtype));
  part.shape = {range.count()};
  part.strides = {1};
  return part;
}

size_t gathering_bytes(const SharedBucket& of) { return size_t(part_bytes(of) * of.shards.ranks()); }

Gathering::Gathering(ProcessGroup& group, const SharedBucket& of, const Place& own)
    : group_(group), of_(of), each_(part_bytes(of)) {
  MemoryScope scope(MemoryCategory::workspace);
  const int rank = group.rank();
  const auto first =
      std::ranges::find_if(of.bucket.parameters, [&](size_t i) { return of.leaves[i].defined(); });
  const Device device = of.leaves[*first].device();
  parts_ = Tensor::empty({each_ * group.size()}, DType::u8, device);
  for_each_shard(rank, [&](const Shard& shard, const TensorView& part) {
    kernels::copy(current_stream(device), own(shard), part);
  });
  work_ = group.all_gather(parts_, parts_.slice(0, rank * each_, (rank + 1) * each_), of.label);
}

void Gathering::finish(const Place& places, bool with_own) {
  work_.wait();
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (rank == group_.rank() && !with_own) continue;
    for_each_shard(rank, [&](const Shard& shard, const TensorView& part) {
      kernels::copy(current_stream(part.device), part, places(shard));
    });
  }
}

// Calls body with each shard of a rank and where it is in the rank's part.
template <class Body>
void Gathering::for_each_shard(int rank, const Body& body) {
  char* at = reinterpret_cast<char*>(parts_.view().data) + rank * each_;
  for (const Shard& shard : of_.shards.of(of_.index, rank)) {
    const Tensor& leaf = of_.leaves[shard.parameter];
    if (!leaf.defined()) continue;
    body(shard, {at, {shard.range.count()}, {1}, leaf.dtype(), leaf.device()});
    at += bytes_of(of_, shard);
  }
}

}  // namespace reprise::distributed
