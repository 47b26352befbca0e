// Work: a call of a group that is in progress.
#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>

#include "reprise/core/cuda/event.h"
#include "reprise/core/tensor.h"
#include "reprise/distributed/communication.h"

namespace reprise::distributed {

/// A handle; copies are the same call, and a default one is of none and done. The group keeps the call's tensors until it is done, whether or not a handle is left.
/// Until then, what it reads is not to be written, and what it writes is not to be read. What scatters (reduce_scatter,
/// scatter_nodes, ring_scatter) keeps what it sends and sums in until it has been waited for, or no handle is left, as after an error: so
/// that a step's memory does not depend on how fast ranks are.
class Work {
 public:
  /// What comes after it sees the result: on the CPU it has arrived; on a GPU the current stream waits, and the host no longer
  /// than until all ranks have made the call. Throws the call's error, if it has failed by then: a DistributedError, or what
  /// this rank met in it, such as a lack of memory, as it is. Where it fails later, what arrives is of no use, and `synchronize` and the
  /// group's next call throw.
  void wait() const;
  /// The same for what comes on `stream` of a GPU.
  void wait_on(const Stream& stream) const;
  /// The host waits.
  void synchronize() const;
  bool is_done() const;    ///< failed counts as done
  double seconds() const;  ///< from its begin to its end, without the time in the queue; 0 until it is done

 private:
  friend class CallQueue;
  friend class GroupCalls;
  // Waits until it is known where on a stream the results arrive; null if they have arrived in host memory.
  std::shared_ptr<const cuda::Event> arrival() const;
  void keep(TensorList tensors);  // until it has been waited for
  void release() const;
  struct State {
    explicit State(std::shared_ptr<CommunicationMeter> of_rank) : meter(std::move(of_rank)) {}
    /// Waits until `ready`, which the rank's meter counts.
    template <class Ready>
    void wait(std::unique_lock<std::mutex>& lock, const Ready& ready);

    const std::shared_ptr<CommunicationMeter> meter;
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    double seconds = 0;
    std::exception_ptr error;
    TensorList kept;
    std::shared_ptr<const cuda::Event> arrival;  // a point of the group's stream, once the call is on it
  };
  std::shared_ptr<State> state_;
};

}  // namespace reprise::distributed
