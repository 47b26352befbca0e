// Recorder: the last calls of each group of a rank, and what it computed between them. It writes them to a file where a failure ends the
// world, or when it is asked to.
#pragma once

#include <deque>
#include <functional>
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

/// Seconds since 1970, of the clock whose times are recorded.
double recorded_now();

/// What a rank computed, in a step of its training (-1: of none), and when it began and ended.
struct RecordedComputation {
  std::string name;
  int64_t step = -1;
  double begun = 0, done = 0;
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
  static constexpr size_t most_computations = 4096;

  /// `clock_offset`: by how many seconds rank 0's clock is ahead of this rank's, as far as is known then; none: they are one.
  Recorder(int rank, int ranks, std::function<double()> clock_offset = {})
      : rank_(rank), ranks_(ranks), clock_offset_(std::move(clock_offset)) {}

  /// The track of a group, for as long as that lives.
  std::shared_ptr<CallTrack> add_group();
  void add(RecordedComputation computation);
  /// Empty: nothing is written.
  void set_folder(const std::string& folder);
  /// Writes the calls of all groups and the computations, with the reason; the file's path, or nothing where there is no folder or it
  /// cannot be written. Calls and computations do not wait for the disk.
  std::string write(const std::string& reason);

 private:
  std::string text(const std::string& reason);

  int rank_, ranks_;
  std::function<double()> clock_offset_;
  std::mutex writing_;  // held while a file is written, and before mutex_
  std::mutex mutex_;
  std::string folder_;
  std::list<std::weak_ptr<CallTrack>> tracks_;
  std::deque<RecordedComputation> computations_;
};

}  // namespace reprise::distributed
