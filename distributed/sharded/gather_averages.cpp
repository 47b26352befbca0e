#include "reprise/distributed/sharded/gather_averages.h"

#include <algorithm>

#include "reprise/autograd/grad_mode.h"
#include "reprise/distributed/data_parallel/gathering.h"
#include "reprise/distributed/data_parallel/scattered_weights.h"

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

bool is_scattered(const DataParallel& parallel, size_t leaf) {
  const ScatteredWeights* scattered = parallel.scattered_weights();
  return scattered && scattered->has(leaf);
}

// By parameter; undefined where an average has no parts, or where `leaves_out` says so.
TensorList whole_of_parts(DataParallel& parallel, const optim::Ema& ema,
                          const std::function<bool(size_t leaf)>& leaves_out) {
  NoGrad guard;
  MemoryScope scope(MemoryCategory::workspace);
  const TensorList& leaves = parallel.leaves();
  TensorList parts, forms, whole(leaves.size());
  for (size_t i = 0; i < leaves.size(); ++i) {
    parts.push_back(leaves_out(i) ? Tensor() : ema.part_of(leaves[i]));
    forms.push_back(parts.back().defined() ? ema.average_of(leaves[i]) : Tensor());
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
  return whole;
}

size_t place_of(const TensorList& leaves, const Tensor& followed) {
  const auto leaf = std::ranges::find_if(leaves, [&](const Tensor& x) { return x.is_same(followed); });
  invariant(leaf != leaves.end(), "whole_averages: an average of what is not trained has parts");
  return size_t(leaf - leaves.begin());
}

}  // namespace

optim::Ema::Whole whole_averages(DataParallel& parallel, const optim::Ema& ema) {
  const TensorList whole = whole_of_parts(parallel, ema, [](size_t) { return false; });
  return [leaves = parallel.leaves(), whole](const Tensor& followed) {
    const Tensor& average = whole[place_of(leaves, followed)];
    check(average.defined(), "whole_averages: a weight ", followed.dtype(), followed.shape(),
          " is hollow, and its average is whole; look at it within a WholeWeights");
    return average;
  };
}

optim::Ema::Whole averages_around_blocks(DataParallel& parallel, const optim::Ema& ema) {
  const TensorList whole =
      whole_of_parts(parallel, ema, [&](size_t leaf) { return is_scattered(parallel, leaf); });
  return [leaves = parallel.leaves(), whole](const Tensor& followed) {
    return whole[place_of(leaves, followed)];
  };
}

void scatter_averages(DataParallel& parallel, optim::Ema& ema) {
  ScatteredWeights* scattered = parallel.scattered_weights();
  if (!scattered) return;
  TensorList averages(parallel.leaves().size());
  for (size_t i = 0; i < averages.size(); ++i)
    if (scattered->has(i) && !ema.part_of(parallel.leaves()[i]).defined())
      averages[i] = ema.average_of(parallel.leaves()[i]);
  if (std::ranges::none_of(averages, &Tensor::defined)) return;  // they are already
  scattered->add_followers(parallel.model(), averages);
  for (size_t i = 0; i < averages.size(); ++i)
    if (averages[i].defined()) ema.keep_part(parallel.leaves()[i], scattered->part_of(averages[i])->elements);
}

void gather_averages(DataParallel& parallel, const optim::Ema& ema) {
  if (!ema.follows_parts()) return;
  check(ema.lives_elsewhere(),
        "gather_averages: each rank keeps its own part of these averages; look at them within an "
        "Ema::Scope(ema, whole_averages(parallel, ema))");
  NoGrad guard;
  TensorList averages;  // by parameter
  for (const Tensor& leaf : parallel.leaves())
    averages.push_back(ema.part_of(leaf).defined() ? Tensor() : ema.average_of(leaf));
  const auto place = [&](const Shard& shard) {
    return elements_of(averages[shard.parameter].view(), shard.range);
  };
  for_each_bucket(parallel, averages, [&](const SharedBucket& of) {
    Gathering(parallel.group(), of, place).finish(place, /*with_own=*/false);
  });
}

}  // namespace reprise::distributed
