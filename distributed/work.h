// Work: a call of a group that is in progress.
#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>

#include "reprise/core/stream.h"

namespace reprise::distributed {

/// A handle; copies are the same call, and a default one is of none and done. The group keeps the call's tensors until it is done, whether or not a handle is left.
/// Until then, what it reads is not to be written, and what it writes is not to be read.
class Work {
 public:
  /// What comes after it sees the result: on the CPU it has arrived; on a GPU the current stream waits, the host does not.
  /// Throws the call's DistributedError.
  void wait() const { synchronize(); }
  void wait_on(const Stream&) const { synchronize(); }
  /// The host waits.
  void synchronize() const;
  bool is_done() const;    ///< failed counts as done
  double seconds() const;  ///< from its begin to its end, without the time in the queue; 0 until it is done

 private:
  friend class CallQueue;
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    double seconds = 0;
    std::exception_ptr error;
  };
  std::shared_ptr<State> state_;
};

}  // namespace reprise::distributed
