// Recorder: the last calls of each group of a rank, written to a file where a failure ends the world, or when it is asked for.
#pragma once

#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "reprise/distributed/call.h"

namespace reprise::distributed {

/// A call, and when it was made, begun by the group's thread, and done: seconds since 1970, 0 where it has not come so far.
struct RecordedCall {
  Call call;
  double issued = 0, begun = 0, done = 0;
};

/// The calls of one group.
class CallTrack {
 public:
  static constexpr size_t most_calls = 4096;

  /// The call's number on this track, for what follows.
  int64_t issue(const Call& call);
  void begin(int64_t number);
  void end(int64_t number);  ///< done, not failed
  std::deque<RecordedCall> calls() const;

 private:
  RecordedCall* find(int64_t number);

  mutable std::mutex mutex_;
  std::deque<RecordedCall> calls_;
  int64_t forgotten_ = 0;  // calls before the first one
};

/// Of one rank: its file is FOLDER/rank-K.jsonl.
class Recorder {
 public:
  Recorder(int rank, int ranks) : rank_(rank), ranks_(ranks) {}

  /// The track of a group, for as long as that lives.
  std::shared_ptr<CallTrack> add_group();
  /// Empty: nothing is written.
  void set_folder(const std::string& folder);
  /// Writes the calls of all groups, with the reason; the file's path, or nothing where there is no folder or it cannot be
  /// written.
  std::string write(const std::string& reason);

 private:
  int rank_, ranks_;
  std::mutex mutex_;
  std::string folder_;
  std::list<std::weak_ptr<CallTrack>> tracks_;
};

}  // namespace reprise::distributed
