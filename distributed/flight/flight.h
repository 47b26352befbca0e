// The records that ranks have written of their calls (distributed/recorder.h), lined up.
#pragma once

#include <string>

namespace reprise::distributed {

/// Reads FOLDER/rank-K.jsonl of all ranks, and says, group by group, the first call on which they differ, the first that is not
/// done on all, and which ranks are behind. Error if there is none, or if one cannot be read.
std::string compare_records(const std::string& folder);

}  // namespace reprise::distributed
