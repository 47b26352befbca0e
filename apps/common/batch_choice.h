// --batch auto: the batch that fits, and with --recompute auto the batch and the strategy that train fastest.
#pragma once

#include "reprise/apps/common/memory_advice.h"
#include "reprise/apps/common/training_run.h"
#include "reprise/distributed/process_group.h"

namespace reprise::apps {

/// What a run trains with, once it is chosen.
struct BatchChoice {
  int64_t batch = 1;       ///< rows per micro-batch
  int64_t accumulate = 1;  ///< micro-batches per update, over all ranks
  std::string recompute;   ///< as `parse_strategy` takes it
  bool operator==(const BatchChoice&) const = default;
};
/// @{
/// Rank 0's, on all ranks, which call it.
BatchChoice of_first_rank(const BatchChoice& own, distributed::ProcessGroup& group);
recompute::Plan of_first_rank(const recompute::Plan& own, distributed::ProcessGroup& group);
/// @}

/// Takes the largest batch that fits into nine tenths of `limit` with `own`, the strategy of the options, and divides the rows of an
/// update; options and their text for the run folder have it from then on. Error naming the batch that takes least if none fits.
void choose_batch(TrainingOptions& options, const TrainedModel& trained, const MeasuredStrategy& own,
                  size_t limit, distributed::ProcessGroup& group);
/// The same of batch and strategy (nn::fastest_batches), within what `recompute_auto` names if that is less. The strategy is set.
void choose_batch_and_strategy(TrainingOptions& options, const TrainedModel& trained, size_t limit,
                               distributed::ProcessGroup& group);

}  // namespace reprise::apps
