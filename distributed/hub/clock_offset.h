// ClockOffset: how far another machine's clock is ahead of this one's, as far as its heartbeats tell.
#pragma once

#include <algorithm>
#include <deque>

namespace reprise::distributed {

/// A heartbeat says when it was sent, and comes later than that. So of the last ones the quickest is nearest: what is told is less than
/// the truth by the time which that one took.
class ClockOffset {
 public:
  /// Both in seconds since 1970: when it was sent, by the other clock, and when it came, by this one.
  void heard(double sent, double came) {
    offsets_.push_back(sent - came);
    if (offsets_.size() > most) offsets_.pop_front();
  }
  /// 0 where none came.
  double seconds() const { return offsets_.empty() ? 0 : *std::ranges::max_element(offsets_); }

 private:
  static constexpr size_t most = 64;  // of 250 ms each: clocks drift, and are set

  std::deque<double> offsets_;
};

}  // namespace reprise::distributed
