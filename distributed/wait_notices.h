// WaitNotices: says, once per wait, what a rank has waited for, for a long time.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "reprise/distributed/transport.h"

namespace reprise::distributed {

/// What lines are told by where a program says nothing else.
void tell_standard_error(const std::string& line);

/// Looks from a thread of its own, so that a wait that is short costs nothing.
class WaitNotices {
 public:
  using Tell = std::function<void(const std::string& line)>;
  /// What there is to say of a wait that is older than `age`; empty where there is nothing, or where it was said.
  using Look = std::function<std::string(Clock::duration age)>;

  /// `tell` is called by the thread; empty: a line on standard error.
  WaitNotices(std::chrono::milliseconds after, Tell tell);
  ~WaitNotices();
  WaitNotices(const WaitNotices&) = delete;

  /// `owner` names it for `remove`, after which it is not called any more.
  void add(const void* owner, Look look);
  void remove(const void* owner);

 private:
  void loop();

  std::chrono::milliseconds after_;
  Tell tell_;
  std::mutex mutex_;
  std::condition_variable ending_;
  std::map<const void*, Look> looks_;
  bool is_ending_ = false;
  std::thread thread_;  // last: it uses what stands above
};

}  // namespace reprise::distributed
