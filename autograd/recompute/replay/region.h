// Region: one call of a non-reentrant checkpoint, from its first run to the end of the last backward pass.
//
// The first run records the graph as always, but each tensor that an operation saves is replaced by a slot.
// The first slot that a backward pass reads makes the region run its body again, which saves the same tensors
// in the same order: they fill the slots. The graph of the replay itself is thrown away. What a policy keeps
// stays with the slots.
#pragma once

#include <mutex>

#include "reprise/autograd/pass_local.h"
#include "reprise/autograd/recompute/replay/recording.h"

namespace reprise::recompute {

class Rebuilt;

class Region : public std::enable_shared_from_this<Region> {
 public:
  /// `options` with the thread's overrides in them.
  Region(std::shared_ptr<Body> body, const TensorList& inputs, const std::vector<std::string>& paths,
         const CheckpointOptions& options)
      : recording_(std::move(body), inputs, paths, options) {}

  TensorList first_run(const TensorList& inputs);

  /// The value of a slot, from this pass's replay, which runs if it has not yet.
  Tensor read(const Slot& slot);

 private:
  std::shared_ptr<Rebuilt> replay();

  Recording recording_;
  autograd::PassLocal<std::shared_ptr<Rebuilt>> rebuilt_;
  std::mutex mutex_;  // two passes at once: one replay after the other
};

}  // namespace reprise::recompute
