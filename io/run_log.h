// metrics.jsonl: what a training run measured, one JSON object a line, e.g.
// {"step":100,"loss":2.31,"lr":0.001}.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/io/file.h"

namespace reprise::io {

struct Metric {
  std::string_view name;
  double value;
};

/// One line of a log.
struct RunRecord {
  int64_t step = 0;
  std::vector<std::pair<std::string, double>> metrics;  ///< numbers, in the order written; null reads as NaN
};

class RunLog {
 public:
  /// A new log. Error if there is one already.
  explicit RunLog(const std::string& path);
  /// Goes on with a log after `step`: later records, which training will write again, are dropped, and so is
  /// a last line that a crash cut short. Lines that cannot be read stay as they are. A log that is missing is
  /// begun.
  static RunLog resume(const std::string& path, int64_t step);

  /// Lines of the resumed log that could not be read; 0 for a new one.
  int64_t unreadable() const { return unreadable_; }
  /// Appends one record, whole or, with an Error, not at all. NaN and infinities become null.
  void write(int64_t step, const std::vector<Metric>& metrics);
  /// Syncs and closes; Error if what was written did not reach the disk. Without it, the destructor just
  /// closes.
  void close();

 private:
  explicit RunLog(File file) : file_(std::move(file)) {}
  File file_;
  int64_t unreadable_ = 0;
};

/// The records of a log, read one after the other in memory that does not grow with the file. What cannot be
/// read is skipped and counted: a log never stands in the way of what it reports on.
///
///     RunLogReader log(path);
///     for (const RunRecord& record : log) use(record);
///     if (log.unreadable() > 0) warn(log.unreadable());
class RunLogReader {
 public:
  /// Error if there is no regular file at `path`.
  explicit RunLogReader(const std::string& path) : file_(File::open(path)) {}
  RunLogReader(const RunLogReader&) = delete;

  /// Reads the next record; false at the end. A last line without its end is left out, and not counted.
  bool next();
  const RunRecord& record() const { return record_; }
  /// Lines so far that are no record, or longer than a record ever is (16 KiB).
  int64_t unreadable() const { return unreadable_; }

  class Iterator {
   public:
    using value_type = RunRecord;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(RunLogReader& log) : log_(log.next() ? &log : nullptr) {}
    const RunRecord& operator*() const { return log_->record_; }
    Iterator& operator++() { return *this = Iterator(*log_); }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return log_ == nullptr; }

   private:
    RunLogReader* log_;
  };
  Iterator begin() { return Iterator(*this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  friend class RunLog;
  enum class Line { none, cut, too_long, whole };
  Line read_line();
  void read_more();

  File file_;
  uint64_t file_offset_ = 0;  // of what read_more reads next
  std::string buffer_;
  size_t used_ = 0;        // of the buffer
  std::string_view line_;  // with its end; a piece of it if it is too long
  bool in_long_ = false;   // the line before is too long and goes on
  RunRecord record_;
  int64_t unreadable_ = 0;
};

/// The records of the log at `path`, for one loop over them.
inline RunLogReader read_run_log(const std::string& path) { return RunLogReader(path); }

}  // namespace reprise::io
