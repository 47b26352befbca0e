#include "reprise/distributed/sharded/gather_averages.h"

#include <algorithm>

#include "reprise/autograd/grad_mode.h"
#include "reprise/distributed/data_parallel/gathering.h"

namespace reprise::distributed {
namespace {

// Calls `gather` with each bucket of the model that has some of `averages`, which are by parameter; others are undefined.
template <class Gather>
void for_each_bucket(DataParallel& parallel, const TensorList& averages, const Gather& gather) {
  for (size_t index = 0; index < parallel.buckets().size(); ++index) {
    const Bucket& bucket = parallel.buckets()[index];
    if (std::ranges::any_of(bucket.parameters, [&](size_t i) { return averages[i].defined(); }))
      gather(SharedBucket{averages, bucket, parallel.shards(), index,
                          detail::join("averages of bucket ", index)});
  }
}

}  // namespace

optim::Ema::Whole whole_averages(DataParallel& parallel, const optim::Ema& ema) {
  NoGrad guard;
  MemoryScope scope(MemoryCategory::workspace);
  const TensorList& leaves = parallel.leaves();
  TensorList parts, forms, whole(leaves.size());
  for (const Tensor& leaf : leaves) {
    parts.push_back(ema.part_of(leaf));
    forms.push_back(parts.back().defined() ? ema.average_of(leaf) : Tensor());
  }
  for_each_bucket(parallel, forms, [&](const SharedBucket& of) {
    Gathering gathering(parallel.group(), of,
                        [&](const Shard& shard) { return parts[shard.parameter].view(); });
    for (const size_t i : of.bucket.parameters)
      if (forms[i].defined()) whole[i] = Tensor::empty(forms[i].shape(), forms[i].dtype(), forms[i].device());
    gathering.finish(
        [&](const Shard& shard) { return elements_of(whole[shard.parameter].view(), shard.range); },
        /*with_own=*/true);
    for (const size_t i : of.bucket.parameters)  // a bucket at a time is of the averages' dtype
      if (forms[i].defined()) whole[i] = whole[i].to(leaves[i].dtype());
  });
  return [leaves, whole](const Tensor& followed) {
    const auto leaf = std::ranges::find_if(leaves, [&](const Tensor& x) { return x.is_same(followed); });
    invariant(leaf != leaves.end(), "whole_averages: an average of what is not trained has parts");
    return whole[size_t(leaf - leaves.begin())];
  };
}

void gather_averages(DataParallel& parallel, const optim::Ema& ema) {
  if (!ema.follows_parts()) return;
  check(ema.lives_elsewhere(),
        "gather_averages: each rank keeps its own part of these averages; look at them within an "
        "Ema::Scope(ema, whole_averages(parallel, ema))");
  NoGrad guard;
  TensorList averages;  // by parameter
  for (const Tensor& leaf : parallel.leaves()) averages.push_back(ema.average_of(leaf));
  const auto place = [&](const Shard& shard) {
    return elements_of(averages[shard.parameter].view(), shard.range);
  };
  for_each_bucket(parallel, averages, [&](const SharedBucket& of) {
    Gathering(parallel.group(), of, place).finish(place, /*with_own=*/false);
  });
}

}  // namespace reprise::distributed
