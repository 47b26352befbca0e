// Training on ranks: what the launcher says, and what a rank does around its training.
#pragma once

#include <functional>

#include "reprise/apps/common/training_options.h"
#include "reprise/distributed/data_parallel/buckets.h"
#include "reprise/distributed/process_group.h"
#include "reprise/distributed/tree.h"

namespace reprise::apps {

/// Call it once all options are read, before they are kept: checks --ranks, --batch and --accumulate against the launcher's
/// variables. Where several ranks are given no --accumulate, it cuts --batch into one micro-batch per rank. Error with the
/// nearest number that fits.
void take_ranks(CLI::App& train, TrainingOptions& options);

/// The micro-batches of a step that this rank takes.
distributed::LeafRange own_share(const TrainingOptions& options);

/// Sets of gradients that a rank has added before the last of these micro-batches.
int64_t gradient_sums(const TrainingOptions& options, const distributed::LeafRange& leaves);

/// The same of the rank that has most of them, where a step has so many micro-batches over all ranks.
int64_t most_gradient_sums(const TrainingOptions& options, int64_t micro_batches);

/// What tensors of this rank may take (memory_for_tensors): ranks on a CPU that nothing else limits have equal parts.
size_t memory_of_rank(Device device);

/// The device of this rank: of several on a machine with several GPUs, each has that of its local rank.
Device device_of(const TrainingOptions& options);

/// Whether this process has the terminal and the run folder: rank 0.
bool is_first_rank();
/// How many there are, as the launcher says.
int rank_count();

/// Tells all ranks rank 0's run folder: from now on the calls of each are recorded in its folder flight/, where an earlier record
/// goes. Where the options say so, what each says on standard error is kept in the folder too, from its first line on. All
/// ranks call it, rank 0 once the folder is made.
void record_calls(distributed::ProcessGroup& group, const std::string& run_folder,
                  const TrainingOptions& options);

/// Joins the ranks and calls `body`, on rank 0 alone with a standard output. What ends one rank is told to all others, which
/// then throw a DistributedError, or end within 2 s where they make no call (apps/common/rank_watch.h).
int on_ranks(const TrainingOptions& options,
             const std::function<int(distributed::ProcessGroup& group)>& body);

/// Error on all ranks, with the first difference, unless they have the same options and data: all options but those of the
/// call itself, threads, the device, and `data_options`, whose names begin with "--". `data`: lines that tell what is read. Says on
/// which hosts the ranks are.
void check_same_run(distributed::ProcessGroup& group, const TrainingOptions& options, const std::string& data,
                    const std::set<std::string>& data_options);

/// "Hosts: 2: a with ranks 0 1, b with rank 2", of the name that each rank's host has, and the line's end.
std::string hosts_line(const std::vector<std::string>& host_of_rank);

/// Which gradients ranks send together.
distributed::BucketOptions buckets_of(const TrainingOptions& options);

/// Threads of a rank: as --threads says, or its part of this machine's.
void take_threads(const TrainingOptions& options);

/// The lines of a header that say launcher, transport, ranks, micro-batches and what is shared; none for one process by
/// itself that shares nothing.
std::string ranks_line(const TrainingOptions& options);

}  // namespace reprise::apps
