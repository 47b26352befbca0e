// Whether training waits for its data, and what to do about it.
#pragma once

#include <cstdint>
#include <string>

namespace reprise::apps {

/// Looks at the steps of a run, 20 at a time, from the second one on: the first waits for threads that have just started.
class DataWait {
 public:
  /// `unit`: "images"; `advice`: what helps.
  DataWait(std::string unit, std::string advice) : unit_(std::move(unit)), advice_(std::move(advice)) {}

  /// Of the step just done: its seconds, those of them that it waited for data, and its units. Returns a line, once in a
  /// run, if more than a fifth of 20 steps' time was waiting: how many units a second there are, and how many there
  /// would be without waiting. Else nothing.
  std::string add(double seconds, double waited, int64_t units);

 private:
  std::string unit_, advice_;
  int64_t steps_ = -1, units_ = 0;
  double seconds_ = 0, waited_ = 0;
  bool told_ = false;
};

}  // namespace reprise::apps
