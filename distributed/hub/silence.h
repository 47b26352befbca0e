// Heartbeats: how often they come, and for how long a peer has sent none.
#pragma once

#include <algorithm>

#include "reprise/distributed/hub/address.h"
#include "reprise/distributed/transport.h"

namespace reprise::distributed {

/// From one heartbeat to the next. They are sent by the threads of the hub, whatever the computation does.
inline constexpr std::chrono::milliseconds beat_time{250};

/// `asked`, or where nothing is asked 3 s if the hub's address is of loopback, and else 10 s.
inline std::chrono::milliseconds peer_timeout_of(std::optional<std::chrono::milliseconds> asked,
                                                 const std::string& address) {
  return asked.value_or(std::chrono::milliseconds(is_loopback(address) ? 3000 : 10000));
}

/// How long a peer has not been heard, by the time for which this process has run: while it is stopped itself, nothing
/// arrives, and that is not the peer's fault.
class Silence {
 public:
  /// `timeout`: from when on it is too long; 0: it never is.
  explicit Silence(std::chrono::milliseconds timeout) : timeout_(timeout) {}
  void heard() {
    silent_ = {};
    last_ = Clock::now();
  }
  /// To be called several times per heartbeat; counts no more than two heartbeats from one call to the next.
  bool is_too_long() {
    silent_ += since_last();
    last_ = Clock::now();
    return timeout_.count() > 0 && silent_ > timeout_;
  }
  /// Up to now.
  double seconds() const { return std::chrono::duration<double>(silent_ + since_last()).count(); }

 private:
  Clock::duration since_last() const {
    return std::min<Clock::duration>(Clock::now() - last_, 2 * beat_time);
  }

  std::chrono::milliseconds timeout_;
  Clock::duration silent_{};
  Clock::time_point last_ = Clock::now();
};

/// The failure of a rank that was silent for too long; `who`: "rank 2 (pid 4711)".
inline Failure silent_failure(int rank, const std::string& who, const Silence& silence) {
  const double seconds = double(int64_t(silence.seconds() * 10)) / 10;
  return {FailureKind::silent, rank,
          detail::join(who, " is silent: no heartbeat for ", seconds, " s; it is stopped, or its machine is"),
          silence.seconds()};
}

}  // namespace reprise::distributed
