// Profile: measures the stages of a chain on its device, for the planner.
//
//   rp::recompute::Chain chain = rp::recompute::profile_chain(layers, x);
//   rp::recompute::Planned best = rp::recompute::plan_rotor(chain, 512 << 20);
//
// It plays each stage a few times, forward and backward, and leaves everything as it was: generators,
// parameters and their gradients, hooks, and buffers that ask is_replaying(). Memory is taken for one stage
// at a time. It restarts the allocator's peaks.
#pragma once

#include <functional>

#include "reprise/autograd/recompute/planner/chain.h"

namespace reprise::recompute {

/// Whether the gradients of parameters are there when a step begins.
enum class GradientMemory : uint8_t {
  fresh,  ///< no: each stage's appear as its backward runs
  held,   ///< yes, all: micro-batches after the first, or optimizers that write zeros
};

/// How the stages of a chain are measured.
struct ProfileOptions {
  int repeats = 3;                                   ///< seconds are the median of as many runs
  GradientMemory gradients = GradientMemory::fresh;  ///< of the steps that the plan is for
  /// Held all the time in those steps beside what is allocated now, as further sets of gradients.
  int64_t later_bytes = 0;
  /// Seconds since any moment, asked when the device has done its work; empty: the steady clock.
  std::function<double()> clock{};
};

/// A training step: what makes the chain's input, the chain, and what makes a loss of its output.
struct TrainingStep {
  std::function<Tensor()> before;              ///< makes the chain's input, such as the embedding of a batch
  const std::vector<LayerFunction>& layers;    ///< the chain, which outlives the step
  std::function<Tensor(const Tensor&)> after;  ///< from the chain's output to the loss, one element
};

/// A step of layers of which some leave their input behind, as a skip that a later one takes: a layer takes x, or the
/// latest skip and x, and gives x, or its input and x.
struct ListTrainingStep {
  std::function<Tensor()> before;              ///< as in TrainingStep
  const std::vector<ListLayer>& layers;        ///< outlive the step; Error if no chain with skips
  std::function<Tensor(const Tensor&)> after;  ///< as in TrainingStep
};

/// The chain from `x` on, without anything after it. Its base is what the allocator holds now beside x.
Chain profile_chain(const std::vector<LayerFunction>& layers, const Tensor& x,
                    const ProfileOptions& options = {});

/// @{
/// The whole step. Its base is what the allocator holds now. Add what else there will be during the step,
/// such as the optimizer's state.
Chain profile_step(const TrainingStep& step, const ProfileOptions& options = {});
Chain profile_step(const ListTrainingStep& step, const ProfileOptions& options = {});
/// @}

}  // namespace reprise::recompute
