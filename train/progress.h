// The progress line: what a person watches while a model trains.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reprise/core/device.h"
#include "reprise/train/validation.h"

namespace reprise::train {

/// A part of a line; the part with the largest rank is the first that goes where there is no room.
struct LinePart {
  std::string text;
  int rank;
};
/// The parts with two spaces between, without as many as have no room in `columns`; what is left is cut
/// there.
std::string fit_line(std::vector<LinePart> parts, size_t columns);

class Progress {
 public:
  /// `unit`: what is counted, "tokens" or "images". The memory shown is that of `device`.
  Progress(int64_t first_step, int64_t steps, std::string unit, Device device = {});

  /// Shows the line for the update just done: on a terminal in place, in the columns that it has; else, where
  /// lines stay, only with `force`.
  void update(int64_t step, double loss, const std::optional<Validation>& validation, double lr,
              int64_t units, bool force);
  /// Keeps what is shown and starts a new line; call it before printing anything else.
  void break_line();
  /// Time until now that is not training (evaluation, samples, saving) does not count for the rate.
  void pause() { paused_at_ = Clock::now(); }
  void resume();

  double units_per_second() const { return rate_; }

 private:
  using Clock = std::chrono::steady_clock;
  void rewrite(const std::vector<LinePart>& parts);

  int64_t first_step_, steps_, shown_step_ = -1;
  std::string unit_;
  Device device_;
  bool terminal_;
  size_t shown_columns_ = 0;  // of the line on the terminal
  Clock::time_point started_, last_, paused_at_, shown_{};
  std::chrono::duration<double> not_training_{0};
  double rate_ = 0;  // a moving average
};

/// "1:02:03" or "4:05".
std::string format_duration(double seconds);

}  // namespace reprise::train
