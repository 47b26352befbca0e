#include "reprise/distributed/sharded/gather_averages.h"

#include "reprise/autograd/grad_mode.h"
#include "reprise/distributed/data_parallel/gathering.h"

namespace reprise::distributed {

void gather_averages(DataParallel& parallel, const optim::Ema& ema) {
  if (!ema.follows_parts()) return;
  NoGrad guard;
  TensorList averages;  // by parameter
  for (const Tensor& leaf : parallel.leaves()) averages.push_back(ema.average_of(leaf));
  const auto place = [&](const Shard& shard) {
    return elements_of(averages[shard.parameter].view(), shard.range);
  };
  for (size_t bucket = 0; bucket < parallel.buckets().size(); ++bucket) {
    Gathering gathering(parallel.group(),
                        {averages, parallel.buckets()[bucket], parallel.shards(), bucket,
                         detail::join("averages of bucket ", bucket)},
                        place);
    gathering.finish(place, /*with_own=*/false);
  }
}

}  // namespace reprise::distributed
