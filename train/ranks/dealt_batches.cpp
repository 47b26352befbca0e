#include "reprise/train/ranks/dealt_batches.h"

#include <algorithm>

#include "reprise/distributed/sharded/evaluated_weights.h"
#include "reprise/train/interrupt.h"
#include "reprise/train/ranks/agreement.h"

namespace reprise::train {

std::vector<double> sums_of_batches(distributed::DataParallel& parallel, int64_t batches, size_t numbers,
                                    const OfBatch& of_batch) {
  distributed::ProcessGroup& group = parallel.group();
  std::vector<double> sums(numbers);
  for (int64_t first = 0; first < batches; first += group.size()) {
    std::vector<double> mine(1 + numbers);  // whether this rank stops, and its batch's numbers
    if (const int64_t batch = first + group.rank(); interrupted()) {
      mine[0] = 1;
    } else if (batch < batches) {
      try {
        const std::vector<double> own = of_batch(batch);
        invariant(own.size() == numbers, "sums_of_batches: ", own.size(), " numbers instead of ", numbers);
        std::copy(own.begin(), own.end(), mine.begin() + 1);
      } catch (const Interrupted&) {
        mine[0] = 1;  // all stop together
      }
    }
    distributed::gather_for_others(parallel);
    const std::vector<double> all = of_all_ranks(group, mine, "sums of held-out batches");
    for (size_t rank = 0; rank < size_t(group.size()); ++rank)
      if (all[rank * mine.size()] != 0) throw Interrupted();
    for (int64_t batch = first; batch < std::min(batches, first + group.size()); ++batch)
      for (size_t i = 0; i < numbers; ++i) sums[i] += all[size_t(batch - first) * mine.size() + 1 + i];
  }
  return sums;
}

}  // namespace reprise::train
