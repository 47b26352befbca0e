// Records: what ranks have written of their calls (distributed/recorder.h), read again.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "reprise/distributed/recorder.h"

namespace reprise::distributed {

/// What one rank has written, with times of its own clock. Of a call, dtype and shape are among its words.
struct CallRecord {
  int rank = 0, ranks = 0;
  std::string reason;                                              ///< why it was written
  std::map<std::string, std::map<int64_t, RecordedCall>> calls{};  ///< by group, or group and pair; by number
  std::vector<RecordedComputation> computations{};
  double clock_offset = 0;  ///< by how many seconds rank 0's clock was ahead, as far as the rank knew
};

/// FOLDER/rank-K.jsonl of all ranks, by rank. Error if there is none, or if one cannot be read.
std::map<int, CallRecord> read_records(const std::string& folder);

/// "all_reduce sum f32 (3,) "x"": the same of a send and the recv that it meets.
std::string described(const RecordedCall& recorded);

}  // namespace reprise::distributed
