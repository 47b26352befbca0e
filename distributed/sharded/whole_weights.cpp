#include "reprise/distributed/sharded/whole_weights.h"

#include "reprise/distributed/data_parallel/scattered_weights.h"

namespace reprise::distributed {

WholeWeights::WholeWeights(DataParallel& parallel) : parallel_(parallel) {
  if (ScatteredWeights* scattered = parallel_.scattered_weights()) scattered->hold_all();
}

WholeWeights::~WholeWeights() {
  if (ScatteredWeights* scattered = parallel_.scattered_weights(); scattered && !is_kept_)
    scattered->release_all();
}

}  // namespace reprise::distributed
