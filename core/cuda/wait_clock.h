// WaitClock: how long streams stood still for events.
#pragma once

#include <deque>
#include <mutex>

#include "reprise/core/cuda/event.h"

namespace reprise::cuda {

/// Any thread may use it.
class WaitClock {
 public:
  /// Makes `stream` wait for `event`, and counts what that costs it.
  void wait(const Event& event, const Stream& stream);
  /// Seconds of the waits that are over.
  double seconds();

 private:
  struct Wait {
    Event begin, end;
  };
  void collect();

  std::mutex mutex_;
  std::deque<Wait> waits_;  // not known to be over, the oldest first
  double seconds_ = 0;
};

}  // namespace reprise::cuda
