#include "reprise/distributed/sharded/evaluated_weights.h"

#include "reprise/distributed/data_parallel/scattered_weights.h"
#include "reprise/distributed/sharded/gather_averages.h"

namespace reprise::distributed {
namespace {

// By parameter: what this rank has of the averages of scattered weights.
TensorList parts_of(DataParallel& parallel, const optim::Ema& ema) {
  TensorList parts(parallel.leaves().size());
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parallel.scattered_weights()->has(i)) continue;
    parts[i] = ema.part_of(parallel.leaves()[i]);
    const Tensor average = ema.average_of(parallel.leaves()[i]);
    if (parts[i].defined() || !average.defined()) continue;
    const optim::ElementRange& own = parallel.shards().of_parameter(i, parallel.group().rank()).range;
    parts[i] = average.reshape({average.numel()}).slice(0, own.begin, own.end);
  }
  return parts;
}

}  // namespace

EvaluatedWeights::EvaluatedWeights(DataParallel& parallel, const optim::Ema* ema) : parallel_(parallel) {
  ScatteredWeights* scattered = parallel.scattered_weights();
  check(!scattered || !scattered->asks(), "EvaluatedWeights: there is one already");
  if (scattered) scattered->take_back_all("EvaluatedWeights");
  if (ema) averages_.emplace(*ema, averages_around_blocks(parallel, *ema));
  if (scattered) scattered->begin_asking(ema ? parts_of(parallel, *ema) : TensorList());
}

EvaluatedWeights::~EvaluatedWeights() {
  if (ScatteredWeights* scattered = parallel_.scattered_weights()) scattered->end_asking();
}

void gather_for_others(DataParallel& parallel) {
  if (ScatteredWeights* scattered = parallel.scattered_weights()) scattered->gather_for_others();
}

}  // namespace reprise::distributed
