// Exponential moving average of a module's parameters and buffers (Polyak and Juditsky 1992).
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "reprise/nn/module.h"
#include "reprise/nn/optim/optimizer.h"

namespace reprise::optim {

/// The decay of an update; the first is update 0.
using EmaDecay = std::function<double(int64_t update)>;

/// min(decay, 1 - (1 + t)^(-2/3)) for update t: averages that soon forget where training began (timm's
/// ModelEmaV3).
EmaDecay ema_warmup(double decay);

/// Averages follow all that the state dict holds: average = decay * average + (1 - decay) * value at each
/// `update`, for parameters and floating buffers alike, such as the running statistics of batch norm; buffers
/// of integers, such as its count of batches, are copied; all in one launch per dtype. Averages of values of 16 bits are
/// f32. (PyTorch: AveragedModel with use_buffers = True.)
class Ema {
 public:
  /// Averages start as copies of what the module has now. Error unless the decay is in [0, 1).
  explicit Ema(const nn::Module& module, double decay = 0.999);
  /// A decay for each update: Error in `update` unless it is in [0, 1).
  Ema(const nn::Module& module, EmaDecay decay);
  /// Averages that live elsewhere and start as they are, such as the weights of a target encoder: averages[i] follows
  /// followed[i]. Error unless names, shapes and dtypes are the same, or f32 for 16 bits.
  Ema(const nn::NamedTensors& followed, nn::NamedTensors averages, EmaDecay decay);

  /// Parameters of 16 bits are averaged from now on with the digits that the optimizer, which outlives this, keeps beside
  /// them: its copies in f32, or lower halves. Others are followed as they are. Of what ranks share, this keeps the averages of
  /// its rank's shards alone: the whole ones are hollow then (distributed::whole_averages, SharedTensors). Averages that live
  /// elsewhere stay whole, and move in these shards alone until distributed::gather_averages, but for those of `keep_part`. Error if it has another part already.
  void follow_masters(Optimizer& optimizer);
  /// Whether its averages are tensors that were given to it.
  bool lives_elsewhere() const { return live_elsewhere_; }
  /// Of averages that live elsewhere, and are hollow from now on: this moves `elements`, (count), those that it follows of one, alone. Error
  /// unless it follows so many.
  void keep_part(const Tensor& followed, const Tensor& elements);
  /// Whether it follows parts alone of some values.
  bool follows_parts() const;
  /// The average of a value that is followed: whole, or hollow. Undefined for others.
  Tensor average_of(const Tensor& followed) const;
  /// The elements of a hollow average that this rank has, (count). Undefined for others.
  Tensor part_of(const Tensor& followed) const;
  /// What an average is, of which this has a part, by the value that it follows.
  using Whole = std::function<Tensor(const Tensor& followed)>;

  /// Moves all averages by one update; to be called after each of the optimizer's.
  void update();
  /// As `update`, but nothing changes where `found` (one i32 on the averages' device) is not 0: see GradScaler. A decay
  /// that is the same in each update waits for nothing; one for each update reads `found` first.
  void update_if_finite(const Tensor& found);
  /// As `update`, until `found` (one i32 on the averages' device) is not 0, which it then stays: nothing changes any more. It
  /// waits for nothing, whatever the decay: updates are counted on, which counts for nothing then.
  void update_while_finite(const Tensor& found);
  int64_t updates() const;  ///< waits for the device after update_if_finite
  /// Which update comes next: the averages' state does not say.
  void set_updates(int64_t updates);

  /// The module's tensors have the averages' memory while it lives, for evaluation, and then their own again: nothing is
  /// copied, but for tensors of 16 bits, which have rounded copies.
  class Scope {
   public:
    /// `ema` outlives it. No updates meanwhile: they would follow the averages themselves. `whole` gives those that are hollow,
    /// of the dtype of what they follow; they live as long as this. What is hollow itself stays so, if `whole` gives an undefined
    /// tensor for it: who lends it memory puts averages there (distributed::EvaluatedWeights). Error if it gives another.
    explicit Scope(const Ema& ema, const Whole& whole = {});
    ~Scope();
    Scope(const Scope&) = delete;

   private:
    const Ema& ema_;
    TensorList held_;
  };

  /// The averages, by the names of what they follow; hollow where this has a part alone.
  const nn::NamedTensors& state_dict() const { return averages_; }
  /// Whole averages, of which this keeps what it has. Error, and no change, if names or shapes do not fit.
  void load_state_dict(const nn::NamedTensors& state);

 private:
  /// What each average follows now, by its place.
  std::vector<WideParameter> values() const;
  std::optional<size_t> place_of(const Tensor& followed) const;
  void keep_part(size_t place, const ElementRange& range);
  void blend(double decay, const Tensor& found);

  EmaDecay decay_;
  std::optional<double> constant_;  // what decay_ always is
  int64_t updates_ = 0;
  Tensor counted_;  // i64 on the device: updates beside updates_ that update_if_finite made; undefined: none
  TensorList followed_;
  nn::NamedTensors averages_;  // whole, or hollow
  // For hollow ones.
  struct Part {
    ElementRange range;
    Tensor elements;  // (count)
  };
  std::vector<std::optional<Part>> parts_;
  bool live_elsewhere_ = false;
  Optimizer* masters_ = nullptr;
  std::vector<std::optional<size_t>> places_;  // of the optimizer's parameters among what is followed
};

}  // namespace reprise::optim
