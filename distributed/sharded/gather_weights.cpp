#include "reprise/distributed/sharded/gather_weights.h"

#include <algorithm>

#include "reprise/autograd/grad_mode.h"
#include "reprise/distributed/data_parallel/scattered_weights.h"

namespace reprise::distributed {
namespace {

// Whether each rank has the weights of a bucket whole between steps.
bool is_whole(const DataParallel& parallel, size_t bucket) {
  const ScatteredWeights* scattered = parallel.scattered_weights();
  return !scattered || !scattered->has(parallel.buckets()[bucket].parameters.front());
}

SharedBucket shared(const DataParallel& parallel, size_t bucket) {
  return {parallel.leaves(), parallel.buckets()[bucket], parallel.shards(), bucket,
          detail::join("weights of bucket ", bucket)};
}

}  // namespace

WeightsGather::WeightsGather(DataParallel& parallel) : parallel_(parallel) {}

TensorView WeightsGather::place_of(const Shard& shard) const {
  return elements_of(parallel_.leaves()[shard.parameter].view(), shard.range);
}

void WeightsGather::start(size_t bucket) {
  if (!is_whole(parallel_, bucket)) return;
  NoGrad guard;
  Gathering next(parallel_.group(), shared(parallel_, bucket),
                 [this](const Shard& shard) { return place_of(shard); });
  finish();
  coming_.emplace(std::move(next));
}

void WeightsGather::finish() {
  if (!coming_) return;
  NoGrad guard;
  coming_->finish([this](const Shard& shard) { return place_of(shard); }, /*with_own=*/false);
  coming_.reset();
}

std::vector<size_t> gather_bytes(const DataParallel& parallel) {
  std::vector<size_t> bytes;  // two buckets are under way at once
  for (size_t bucket = 0; bucket < parallel.buckets().size(); ++bucket)
    if (is_whole(parallel, bucket)) bytes.push_back(gathering_bytes(shared(parallel, bucket)));
  std::ranges::sort(bytes, std::greater());
  bytes.resize(std::min<size_t>(bytes.size(), 2));
  return bytes;
}

}  // namespace reprise::distributed
