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

class RunLog {
 public:
  /// A new log. Error if there is one already.
  explicit RunLog(const std::string& path);
  /// Goes on with a log after `step`: later records, which training will write again, are dropped, and so is
  /// a last line that a crash cut short. A log that is missing is begun.
  static RunLog resume(const std::string& path, int64_t step);

  /// Appends one record, in one write. NaN and infinities become null.
  void write(int64_t step, const std::vector<Metric>& metrics);
  /// Syncs and closes; Error if what was written did not reach the disk. Without it, the destructor just
  /// closes.
  void close();

 private:
  explicit RunLog(File file) : file_(std::move(file)) {}
  File file_;
};

/// One line of a log.
struct RunRecord {
  int64_t step = 0;
  std::vector<std::pair<std::string, double>> metrics;  ///< numbers, in the order written; null reads as NaN
};

/// All records. Error with the file and the offset of a line that is damaged; a last line without its end is
/// left out.
std::vector<RunRecord> read_run_log(const std::string& path);

}  // namespace reprise::io
