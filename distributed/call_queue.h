// CallQueue: the thread on which the calls of one group run, one after another.
#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "reprise/distributed/work.h"

namespace reprise::distributed {

class CallQueue {
 public:
  CallQueue();
  ~CallQueue();  ///< runs what is in it, then ends
  CallQueue(const CallQueue&) = delete;

  /// `run` is called on the queue's thread; what it throws is the work's error.
  Work push(std::function<void()> run);
  bool is_idle() const;
  void wait_until_idle();

 private:
  struct Entry {
    std::function<void()> run;
    Work work;
  };
  struct Outcome {
    std::exception_ptr error;
    double seconds = 0;
  };
  void loop();
  static Outcome run(const Entry& entry);
  static void finish(const Work& work, const Outcome& outcome);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> entries_;
  bool running_ = false, ending_ = false;
  std::thread thread_;  // last: it uses what stands above
};

}  // namespace reprise::distributed
