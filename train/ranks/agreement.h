// Numbers on which all ranks agree: what several ranks know in part, and what rank 0 alone knows.
#pragma once

#include <vector>

#include "reprise/distributed/process_group.h"

namespace reprise::train {

// All ranks make the same calls. In a group of one nothing is sent.

/// What a rank wants and tells before a step; after `agree`, whether any rank wants it, and what all have told.
struct Wishes {
  bool stops = false;             ///< end here
  bool saves = false;             ///< save after the step
  bool writes = false;            ///< a checkpoint, still
  std::vector<double> numbers{};  ///< as many of each rank; then those of rank 0 first
};
Wishes agree(distributed::ProcessGroup& group, const Wishes& mine);

/// Whether `mine` is true on any rank.
bool any_rank(distributed::ProcessGroup& group, bool mine);
/// The numbers of all ranks, those of rank 0 first. Each rank has equally many.
std::vector<double> of_all_ranks(distributed::ProcessGroup& group, const std::vector<double>& mine,
                                 const std::string& label);
/// Those of rank 0, everywhere. Each rank gives equally many.
std::vector<double> of_rank_0(distributed::ProcessGroup& group, const std::vector<double>& mine,
                              const std::string& label);

}  // namespace reprise::train
