// RankWatch: a thread beside a rank's computation, for what cannot wait until that makes its next call.
#pragma once

#include <atomic>
#include <csignal>
#include <exception>
#include <thread>

#include "reprise/apps/common/launch.h"
#include "reprise/distributed/process_group.h"

namespace reprise::apps {

/// From now on SIGUSR1 does not end this process, unless the program has a handler of its own: a rank that waits for others to join may be
/// asked for its calls before it listens.
void keep_requests_harmless();

/// While it lives, SIGUSR1 has the record of calls written; and where the world has ended and the computation has met it in no
/// call for 2 s, the process says so and ends, with the exit code of what has ended it. Where --ranks has started the process and its
/// launcher dies, by which it is asked to save, it ends at the latest after `time_to_save`. One at a time.
class RankWatch {
 public:
  explicit RankWatch(distributed::ProcessGroup& group,
                     std::chrono::milliseconds time_to_save = TimesToEnd().asked);
  ~RankWatch();
  RankWatch(const RankWatch&) = delete;

 private:
  void loop();
  void write_if_asked();
  void end_if_failed();
  void end_if_left();
  std::exception_ptr cause(double seconds);

  distributed::ProcessGroup& group_;
  const std::chrono::milliseconds time_to_save_;
  pid_t launcher_ = 0;  // 0: another one than --ranks, of which the rank may be independent
  std::optional<std::chrono::steady_clock::time_point> left_at_{};
  std::optional<distributed::Failure> failure_{};
  std::chrono::steady_clock::time_point failed_at_{};
  struct sigaction previous_ {};
  std::atomic<bool> is_ending_{false};
  std::thread thread_;
};

}  // namespace reprise::apps
