// Training on ranks: what the launcher says, and what a rank does around its training.
#pragma once

#include <functional>

#include "reprise/apps/common/training_options.h"
#include "reprise/distributed/process_group.h"
#include "reprise/distributed/tree.h"

namespace reprise::apps {

/// Call it once all options are read, before they are kept: checks --ranks, --batch and --accumulate against the launcher's
/// variables. Where several ranks are given no --accumulate, it cuts --batch into one micro-batch per rank. Error with the
/// nearest number that fits.
void take_ranks(CLI::App& train, TrainingOptions& options);

/// The micro-batches of a step that this rank takes.
distributed::LeafRange own_share(const TrainingOptions& options);

/// Whether this process has the terminal and the run folder: rank 0.
bool is_first_rank();

/// Joins the ranks and calls `body`, on rank 0 alone with a standard output. What ends one rank is told to all others, which
/// then throw a DistributedError.
int on_ranks(const TrainingOptions& options,
             const std::function<int(distributed::ProcessGroup& group)>& body);

/// Threads of a rank: as --threads says, or its part of this machine's.
void take_threads(const TrainingOptions& options);

/// The line of a header that says launcher, transport, ranks and micro-batches; empty for one process by itself.
std::string ranks_line(const TrainingOptions& options);

}  // namespace reprise::apps
