// StepTrace: when the operations of one training step ran, and of which layer they were.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "reprise/autograd/op_observer.h"
#include "reprise/autograd/recompute/accounting/accounting.h"
#include "reprise/autograd/recompute/checkpoint.h"

namespace reprise::nn {

/// What runs in a slice of a step.
enum class StepPhase : uint8_t { forward, backward, replay, update };
const char* name_of(StepPhase phase);  ///< "forward", ...

/// A stretch of time, in seconds since the trace began.
struct StepSlice {
  StepPhase phase;    ///< what ran
  std::string name;   ///< of the operation; "region" for all of a replay; "update"
  std::string layer;  ///< its OpScope; empty outside all
  double begin;       ///< when it began
  double end;         ///< when it was done
};

/// Observes while it lives. Forward operations are timed from one to the next. For backward each operation's
/// output gets a hook, which runs just before the operation's own backward: that too is timed from one to the
/// next. Replays of the regions that are made while it lives, whoever starts them, are timed too. Waits for the device at each point, so that a CUDA
/// device's times are those of the work.
class StepTrace final : public autograd::OpObserver {
 public:
  using Clock = std::chrono::steady_clock;  ///< what times are read from
  explicit StepTrace(Device device);        ///< begins with forward; waits for `device`
  ~StepTrace() override;

  /// For the engine: an operation of forward ends here.
  void op_ran(const char* op_name, const TensorList& inputs, const TensorList& outputs) override;
  void begin_backward(const Tensor& loss);  ///< call it just before `loss.backward()`
  void begin_update();                      ///< call it just before the optimizer's step
  /// Takes the replays in; no more is observed.
  std::vector<StepSlice> finish(const std::vector<recompute::ReplayTime>& replays);

 private:
  class ReplayObserver;
  static recompute::ScopeFactory observe_replays();

  double now() const;
  void hook_producers(const TensorList& tensors);
  void enter(StepSlice next);

  Device device_;
  Clock::time_point started_ = Clock::now();
  StepPhase phase_ = StepPhase::forward;
  double last_ = 0;                         // when the latest forward operation ended
  std::map<uint64_t, std::string> layers_;  // by the sequence number that its nodes stay below
  std::unordered_set<uint64_t> hooked_;     // sequence numbers of nodes
  std::vector<StepSlice> slices_, replayed_;
  std::shared_ptr<StepTrace*> self_;  // of regions and hooks, which may live on: null once it has ended
  std::shared_ptr<StepTrace*> around_;
};

}  // namespace reprise::nn
