// What all ranks must have alike before they begin.
#pragma once

#include <string>

#include "reprise/distributed/process_group.h"

namespace reprise::distributed {

/// All ranks call it with lines of text. Error on each of them, which says `what` and the first line that a rank has
/// otherwise than rank 0: "DataParallel: ranks differ: rank 0 has bias f32(3,), rank 2 has bias f32(4,)".
void check_same_on_all(ProcessGroup& group, const std::string& what, const std::string& lines);

}  // namespace reprise::distributed
