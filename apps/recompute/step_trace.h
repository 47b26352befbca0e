// StepTrace: when the operations of one training step ran, and of which layer they were.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "reprise/autograd/op_observer.h"
#include "reprise/autograd/recompute/accounting/accounting.h"

namespace reprise::apps::recompute {

enum class Phase : uint8_t { forward, backward, replay, update };
const char* name_of(Phase phase);

/// A stretch of time, in seconds since the trace began.
struct Slice {
  Phase phase;
  std::string name;   ///< of the operation; "region" for all of a replay; "update"
  std::string layer;  ///< its OpScope; empty outside all
  double begin, end;
};

/// Observes while it lives. Forward operations are timed from one to the next. For backward each operation's
/// output gets a hook, which runs just before the operation's own backward: that too is timed from one to the
/// next. Waits for the device at each point, so that a CUDA device's times are those of the work.
class StepTrace final : public autograd::OpObserver {
 public:
  using Clock = std::chrono::steady_clock;
  explicit StepTrace(Device device);

  void op_ran(const char* op_name, const TensorList& inputs, const TensorList& outputs) override;
  /// Put it into the regions' options, as context of replays: their operations are timed too.
  std::shared_ptr<void> observe_replay();
  void begin_backward(const Tensor& loss);
  void begin_update();
  /// Takes the replays in; no more is observed.
  std::vector<Slice> finish(const std::vector<reprise::recompute::ReplayTime>& replays);

 private:
  class ReplayObserver;

  double now() const;
  void hook_producers(const TensorList& tensors);
  void enter(Slice next);

  Device device_;
  Clock::time_point started_ = Clock::now();
  Phase phase_ = Phase::forward;
  double last_ = 0;                         // when the latest forward operation ended
  std::map<uint64_t, std::string> layers_;  // by the sequence number that its nodes stay below
  std::unordered_set<uint64_t> hooked_;     // sequence numbers of nodes
  std::vector<Slice> slices_, replayed_;
};

}  // namespace reprise::apps::recompute
