// Ranks that are threads of one process: the reference for other transports, without a network, for tests.
#pragma once

#include "reprise/distributed/process_group.h"

namespace reprise::distributed {

/// The groups "world" of `ranks` ranks, in their order; each is used by a thread of its own. Where the options name a GPU, it
/// is rank 0's, and the others have those after it.
std::vector<std::unique_ptr<ProcessGroup>> make_thread_groups(int ranks, const GroupOptions& options = {});
/// What these move bytes by.
std::vector<std::shared_ptr<Transport>> make_thread_transports(int ranks);

}  // namespace reprise::distributed
