// What the calls of a rank's groups cost: time, time for which the computation waited, and bytes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace reprise::distributed {

/// Of all groups of one rank, since the first one was made.
struct Communication {
  double seconds = 0;  ///< for which a call was in progress: begun by its group's thread, and not done
  double exposed_seconds = 0;  ///< for which a thread waited for a call (Work::wait, Work::synchronize)
  int64_t bytes = 0;           ///< of payload, sent by this rank
};

/// The time for which at least one of several things went on: where they overlap, it counts once.
class BusyTime {
 public:
  /// One of these things.
  class Scope {
   public:
    /// Goes on from here to its end.
    explicit Scope(BusyTime& time) : time_(time) { time_.begin(); }
    ~Scope() { time_.end(); }
    Scope(const Scope&) = delete;

   private:
    BusyTime& time_;
  };

  double seconds() const;  ///< up to now

 private:
  using Clock = std::chrono::steady_clock;
  void begin();
  void end();

  mutable std::mutex mutex_;
  int64_t going_on_ = 0;
  Clock::time_point since_{};
  Clock::duration past_{0};
};

/// What threads of one rank add to.
struct CommunicationMeter {
  BusyTime calls;                 ///< in progress
  BusyTime waits;                 ///< of threads, for calls
  std::atomic<int64_t> bytes{0};  ///< of payload, sent

  /// All of it, up to now.
  Communication read() const { return {calls.seconds(), waits.seconds(), bytes}; }
};

}  // namespace reprise::distributed
