// Region: one call of a non-reentrant checkpoint, from its first run to the end of the last backward pass.
//
// The first run records the graph as always, but each tensor that an operation saves is replaced by a slot.
// The first slot that a backward pass reads makes the region run its body again, which saves the same tensors
// in the same order: they fill the slots. The graph of the replay itself is thrown away. What a policy keeps
// stays with the slots.
#pragma once

#include <mutex>

#include "reprise/autograd/draw.h"
#include "reprise/autograd/recompute/checkpoint.h"
#include "reprise/autograd/recompute/replay/captures.h"
#include "reprise/autograd/recompute/replay/needs.h"
#include "reprise/autograd/recompute/replay/provenance.h"
#include "reprise/autograd/recompute/replay/region_log.h"
#include "reprise/autograd/recompute/replay/saved_inputs.h"
#include "reprise/autograd/recompute/replay/slots.h"
#include "reprise/autograd/recompute/replay/trace.h"
#include "reprise/autograd/recompute/thread_state.h"

namespace reprise::recompute {

/// What a replay does.
enum class Effort : uint8_t {
  needed,      ///< what slots that somebody may still read depend on
  everything,  ///< all of fn, up to the last such slot
};

class Region : public std::enable_shared_from_this<Region> {
 public:
  /// `options` with the thread's overrides in them.
  Region(std::shared_ptr<Body> body, const TensorList& inputs, const std::vector<std::string>& paths,
         const CheckpointOptions& options);

  TensorList first_run(const TensorList& inputs);

  /// The value of a slot, from this pass's replay, which runs if it has not yet.
  Tensor read(const Slot& slot);

 private:
  friend class FirstRun;
  friend class Replay;

  void keep_results();
  std::shared_ptr<KeptValue> kept_value(const Tensor& x, const OpRecord& op) const;
  std::shared_ptr<Rebuilt> replay();
  std::shared_ptr<Rebuilt> play_again(const TensorList& inputs, Effort effort);
  Provenance::Draws compared_draws() const {
    return options_.preserve_rng ? Provenance::Draws::compared : Provenance::Draws::ignored;
  }
  bool keeps_trace() const { return options_.debug || options_.determinism == Determinism::values; }

  std::shared_ptr<Body> body_;
  CheckpointOptions options_;
  SavedInputs inputs_;
  Captures captures_;
  std::vector<autograd::DrawnGenerator> drawn_;
  ThreadState thread_ = ThreadState::now();
  std::vector<SlotRecord> records_;
  std::vector<std::weak_ptr<Slot>> slots_;
  OpLog ops_{options_.policy, drawn_};
  std::map<ResultId, std::weak_ptr<KeptValue>> kept_;
  Trace trace_;
  std::optional<Provenance> provenance_;  // of the first run, where replays are compared with it
  std::shared_ptr<RegionLog> log_ = RegionLog::open();
  bool complete_ = false;  // the first run is over; a backward pass inside it reads slots before
  uint64_t id_;
  std::mutex mutex_;  // two passes at once: one replay after the other
};

}  // namespace reprise::recompute
