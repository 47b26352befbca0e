// ShardedAdamW: AdamW whose state, gradients and weights the ranks share (ZeRO, stages 1 to 3: Rajbhandari et al. 2020), with
// the bits of AdamW on each rank.
//
//   rp::distributed::DataParallel parallel(model, *group);
//   rp::distributed::ShardedAdamW optimizer(parallel, rp::optim::decay_matrices(model, 1e-3, 0.1), {.stage = 2});
//   for (int64_t g : parallel.share(8)) parallel.backward(loss_of(step, g), g);
//   optimizer.step(rp::optim::clip_scale(optimizer.grad_norm(), 1.0));
#pragma once

#include "reprise/distributed/data_parallel/data_parallel.h"
#include "reprise/nn/optim/adamw.h"

namespace reprise::distributed {

/// What ranks share, and the options of AdamW.
struct ShardedAdamWOptions {
  /// 0: each rank has all, as with AdamW. 1: a rank keeps moments and master copies of its shards alone (Shards), updates
  /// these, and is sent the others' weights. 2: it gets the gradients of its shards alone too (scatter_gradients). 3: of the
  /// weights of blocks it keeps these alone as well, and each block's are whole while it runs (scatter_weights).
  int stage = 1;
  optim::AdamWOptions adamw{};  ///< without lr and weight decay, which groups bring: Error if they are given
  std::vector<nn::Layer*> blocks{};  ///< of stage 3; none: numbered layers, such as "h.0"
};

/// All ranks make the same calls: step, step_if_finite, check_gradients, grad_norm and state_dict talk to the others. The
/// state is AdamW's, whole, on rank 0; on the others the tensors that ranks share are hollow. It is loaded whole everywhere,
/// whatever stage and ranks it is from. In a group of one this is AdamW at any stage.
class ShardedAdamW final : public optim::AdamW {
 public:
  /// `parallel` outlives it. Error unless it trains all parameters of the groups, or if there is no such stage.
  ShardedAdamW(DataParallel& parallel, std::vector<optim::ParameterGroup> groups,
               const ShardedAdamWOptions& options = {});

  /// Whether ranks share its state.
  bool is_shared() const { return is_shared_; }
  /// The norm of all gradients of the model; at stages 2 and 3 optim::grad_norm has none to read.
  double grad_norm();

  /// AdamW's of this rank's shards; then the weights that ranks have whole between steps are gathered. Error at stage 3
  /// within a WholeWeights.
  void step(double gradient_scale = 1) override;
  /// As step, where `found` (i32) is 0; else weights, state and counts keep their bits, and are gathered all the same.
  void step_if_finite(const Tensor& gradient_scale, const Tensor& found) override;
  /// AdamW's; of scattered gradients each rank checks its shards, and all have the same result.
  void check_gradients(const kernels::GradientCheck& check) override;
  /// Of the state that ranks share, what this one has; no other takes part.
  nn::NamedTensors own_state_dict() const override;
  /// Bytes of the buffers that weights are gathered in, of the two largest buckets. Empty where nothing is shared.
  std::vector<size_t> step_temporaries() const override;
  /// Error where the digits beside weights of 16 bits are shared.
  std::vector<optim::WideParameter> wide_parameters() override;

 protected:
  /// The elements of a parameter that this rank updates: its shard; all where nothing is shared.
  optim::ElementRange owned(const Tensor& parameter, size_t place) const override;
  /// The weights of these: within the parameter, or at stage 3 the shard that this rank keeps alone.
  Tensor owned_part(const Tensor& parameter, size_t place) const override;
  Tensor owned_gradient(const Tensor& parameter, size_t place) const override;
  /// On rank 0, which is sent the others' shards, the state of a whole parameter; elsewhere a hollow tensor of its
  /// form. `own` where nothing is shared. All ranks call it.
  Tensor whole_state(const StateList& list, const Tensor& parameter, size_t place,
                     const Tensor& own) const override;

 private:
  const Shard& shard(size_t place, int rank) const;
  void begin_update();

  DataParallel& parallel_;
  const bool is_shared_;
  const optim::Master master_;
  std::vector<size_t> leaves_;  // by place: which of parallel's parameters it is
};

}  // namespace reprise::distributed
