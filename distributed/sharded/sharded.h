// Sharded: an optimizer whose state, gradients and weights the ranks share (ZeRO, stages 1 to 3: Rajbhandari et al. 2020), with
// the bits of the same optimizer on each rank. Users see ShardedAdamW and ShardedSgd.
#pragma once

#include "reprise/distributed/data_parallel/data_parallel.h"
#include "reprise/distributed/sharded/gather_weights.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/sgd.h"

namespace reprise::distributed {

/// What ranks share at most. 0: each rank has all. 1: a rank keeps the state of its shards alone (Shards), updates these, and is
/// sent the others' weights. 2: it gets the gradients of its shards alone too (scatter_gradients). 3: of the weights of blocks it
/// keeps these alone as well, and each block's are whole while it runs (scatter_weights).
struct Sharing {
  int stage = 1;                     ///< of ZeRO
  std::vector<nn::Layer*> blocks{};  ///< of stage 3; none: numbered layers, such as "h.0"
};

/// What all optimizers have that ranks share.
class SharedOptimizer {
 public:
  virtual ~SharedOptimizer() = default;
  /// Whether ranks share its state.
  virtual bool is_shared() const = 0;
  virtual int stage() const = 0;  ///< of ZeRO, as it was asked for
  /// The norm of all gradients of the model; at stages 2 and 3 optim::grad_norm has none to read.
  virtual double grad_norm() = 0;
};

/// All ranks make the same calls: step, step_if_finite, check_gradients, grad_norm and state_dict talk to the others. The
/// state is that of `Base`, whole, on rank 0; on the others the tensors that ranks share are hollow. It is loaded whole
/// everywhere, whatever stage and ranks it is from. In a group of one this is `Base` at any stage.
template <class Base>
class Sharded : public Base, public SharedOptimizer {
 public:
  bool is_shared() const final { return is_shared_; }  ///< see SharedOptimizer
  int stage() const final { return stage_; }           ///< see SharedOptimizer
  double grad_norm() final;                            ///< see SharedOptimizer

  /// Base's of this rank's shards, bucket by bucket. The weights that ranks have whole between steps are gathered, a bucket's
  /// while the next one is updated. Error at stage 3 within a WholeWeights.
  void step(double gradient_scale = 1) final;
  /// As step, where `found` (i32) is 0; else weights, state and counts keep their bits, and are gathered all the same.
  void step_if_finite(const Tensor& gradient_scale, const Tensor& found) final;
  /// Base's; of scattered gradients each rank checks its shards, and all have the same result.
  void check_gradients(const kernels::GradientCheck& check) final;
  /// Of the state that ranks share, what this one has; no other takes part.
  nn::NamedTensors own_state_dict() const final;
  /// Bytes of the buffers that weights are gathered in, of the two largest buckets. Empty where nothing is shared.
  std::vector<size_t> step_temporaries() const final;
  /// Those of this rank's shards alone, where the others have theirs alone: see gather_averages.
  std::vector<optim::WideParameter> wide_parameters() final;

 protected:
  /// `op` names it in errors. `keeps_digits`: its state has what weights of 16 bits have no room for. `parallel` outlives it.
  /// Error unless it trains all parameters of the groups, or if there is no such stage.
  template <class Options>
  Sharded(const char* op, DataParallel& parallel, std::vector<optim::ParameterGroup> groups,
          const Options& options, const Sharing& sharing, bool keeps_digits)
      : Base(std::move(groups), options),
        op_(op),
        parallel_(parallel),
        stage_(sharing.stage),
        is_shared_(sharing.stage > 0 && parallel.group().size() > 1),
        keeps_digits_(keeps_digits) {
    share(sharing);
  }

  /// The elements of a parameter that this rank updates: its shard; all where nothing is shared.
  optim::ElementRange owned(const Tensor& parameter, size_t place) const final;
  /// The weights of these: within the parameter, or at stage 3 the shard that this rank keeps alone.
  Tensor owned_part(const Tensor& parameter, size_t place) const final;
  Tensor owned_gradient(const Tensor& parameter, size_t place) const final;  ///< of the same elements
  /// By the bucket of their gradients, where ranks share them.
  std::vector<std::vector<size_t>> update_order() const final;
  void updated(size_t part) override;  ///< sends that bucket's weights
  /// On rank 0, which is sent the others' shards, the state of a whole parameter; elsewhere a hollow tensor of its
  /// form. `own` where nothing is shared. All ranks call it.
  Tensor whole_state(const typename Base::StateList& list, const Tensor& parameter, size_t place,
                     const Tensor& own) const final;

 private:
  void share(const Sharing& sharing);
  const Shard& shard(size_t place, int rank) const;
  void begin_update();
  void end_update();

  const char* op_;
  DataParallel& parallel_;
  int stage_;
  const bool is_shared_, keeps_digits_;
  std::vector<size_t> leaves_{};           // by place: which of parallel's parameters it is
  std::optional<WeightsGather> gather_{};  // in a step, where there is any
};

extern template class Sharded<optim::AdamW>;
extern template class Sharded<optim::Sgd>;

}  // namespace reprise::distributed
