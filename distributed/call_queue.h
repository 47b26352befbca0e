// CallQueue: the thread on which the calls of one group run, one after another.
#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "reprise/distributed/work.h"

namespace reprise::distributed {

class CallQueue {
 public:
  /// Who waits for its calls is counted by `meter`.
  explicit CallQueue(std::shared_ptr<CommunicationMeter> meter);
  ~CallQueue();  ///< runs what is in it, then ends
  CallQueue(const CallQueue&) = delete;

  /// Tells who waits for a call where on the group's stream its results arrive.
  using Arrival = std::function<void(std::shared_ptr<const cuda::Event>)>;

  /// `run` is called on the queue's thread; what it throws is the work's error. It may tell of an arrival before it ends.
  Work push(std::function<void(const Arrival&)> run);
  /// Whether no call is in it but one of which an arrival is known: that one comes to its end.
  bool is_settled() const;
  void wait_until_idle();

 private:
  struct Entry {
    std::function<void(const Arrival&)> run;
    Work work;
  };
  struct Outcome {
    std::exception_ptr error;
    double seconds = 0;
  };
  void loop();
  Outcome run(const Entry& entry);
  void arrive(const Work& work, std::shared_ptr<const cuda::Event> event);
  static void finish(const Work& work, const Outcome& outcome);

  const std::shared_ptr<CommunicationMeter> meter_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> entries_;
  bool running_ = false, has_arrived_ = false, ending_ = false;
  std::thread thread_;  // last: it uses what stands above
};

}  // namespace reprise::distributed
