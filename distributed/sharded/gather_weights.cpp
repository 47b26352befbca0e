#include "reprise/distributed/sharded/gather_weights.h"

#include <algorithm>
#include <optional>

#include "reprise/autograd/grad_mode.h"
#include "reprise/distributed/data_parallel/scattered_weights.h"

namespace reprise::distributed {
namespace {

// Buckets whose weights each rank has whole between steps.
std::vector<SharedBucket> whole_buckets(const DataParallel& parallel) {
  std::vector<SharedBucket> buckets;
  const ScatteredWeights* scattered = parallel.scattered_weights();
  for (size_t bucket = 0; bucket < parallel.buckets().size(); ++bucket)
    if (!scattered || !scattered->has(parallel.buckets()[bucket].parameters.front()))
      buckets.push_back({parallel.leaves(), parallel.buckets()[bucket], parallel.shards(), bucket,
                         detail::join("weights of bucket ", bucket)});
  return buckets;
}

}  // namespace

void gather_weights(DataParallel& parallel) {
  if (parallel.group().size() == 1) return;
  NoGrad guard;
  const auto place = [&](const Shard& shard) {
    return elements_of(parallel.leaves()[shard.parameter].view(), shard.range);
  };
  std::optional<Gathering> before;
  for (const SharedBucket& bucket : whole_buckets(parallel)) {
    Gathering next(parallel.group(), bucket, place);
    if (before) before->finish(place, /*with_own=*/false);
    before.emplace(std::move(next));
  }
  if (before) before->finish(place, /*with_own=*/false);
}

std::vector<size_t> gather_bytes(const DataParallel& parallel) {
  std::vector<size_t> bytes;  // two buckets are under way at once
  for (const SharedBucket& bucket : whole_buckets(parallel)) bytes.push_back(gathering_bytes(bucket));
  std::ranges::sort(bytes, std::greater());
  bytes.resize(std::min<size_t>(bytes.size(), 2));
  return bytes;
}

}  // namespace reprise::distributed
