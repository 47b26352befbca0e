// The records of ranks as a picture of time: events of Chrome's trace format, which Perfetto opens.
#pragma once

#include <string>

namespace reprise::distributed {

/// What is in FOLDER/rank-K.jsonl as JSON for https://ui.perfetto.dev: a row per rank, and within it what the rank computed, and two per
/// group: when a call was made and waited for its turn, and when it was in progress, up to the last time in the records where it was not
/// done. Times are of rank 0's clock, as far as the ranks knew it. Error if there is no record, or if one cannot be read.
std::string trace_of_records(const std::string& folder);

}  // namespace reprise::distributed
