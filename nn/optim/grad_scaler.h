// GradScaler: training in f16 without losing small gradients (Micikevicius et al. 2018, 3.2).
#pragma once

#include <map>
#include <memory>

#include "reprise/core/cuda/late_read.h"
#include "reprise/nn/optim/optimizer.h"
#include "reprise/nn/optim/scaled_gradients.h"

namespace reprise::optim {

/// When the scale grows and shrinks; the defaults are PyTorch's, where it has them.
struct GradScalerOptions {
  double init_scale = 65536;  ///< scale, growth and backoff are powers of two: they round nothing
  double growth = 2;          ///< above 1
  double backoff = 0.5;       ///< below 1
  int64_t interval = 2000;    ///< good updates before the scale grows
  int64_t hysteresis = 1;     ///< bad updates before it backs off (Megatron-LM: 2)
  double min_scale = 1;       ///< below it while updates are skipped, `read` throws
  int64_t max_skips = 50;     ///< and after so many bad updates in a row
};

/// Multiplies a loss, so that its gradients stay above what f16 can hold, and the optimizer's gradients by the inverse;
/// updates whose gradients are infinite or NaN are not made, and make the scale smaller.
///
///   GradScaler scaler(device);
///   scaler.scale(loss).backward();          // micro-batches of one update share a scale
///   scaler.step(optimizer, {.clip = 1.0});  // one pass over the gradients: finite? norm? then the update, or not
///   scaler.update();                        // once, after the steps of all optimizers
///
/// Scale, counts and what was found lie on the device, and no call waits for it but `read`, `Reading::finish`, `state_dict`
/// and `load_state_dict`. A gradient that neither over- nor underflows has the bits of training without a scale. An update
/// that is not made leaves parameters, moments and their counts as they are. The rule is PyTorch's torch.amp.GradScaler's.
class GradScaler {
 public:
  /// Error, naming option and value, unless the options are as said there.
  explicit GradScaler(Device device, const GradScalerOptions& options = {});
  GradScaler(const GradScaler&) = delete;

  /// loss * scale. Error unless the loss is in f32 or f64, and there; after a step of this update.
  Tensor scale(const Tensor& loss);
  /// Puts each gradient divided by the scale in its place, to be looked at or changed; `step` then takes
  /// them as they are. Error on 16-bit gradients, which would underflow; if done already for this update.
  void unscale(Optimizer& optimizer);
  /// What `step` does to the gradients besides.
  struct StepOptions {
    double clip = 0;  ///< the largest norm of the unscaled gradients; 0: any
  };
  /// One update, if all of this optimizer's gradients are finite. Error without `scale` before, or if done already.
  void step(Optimizer& optimizer, const StepOptions& options);
  /// The same without clipping.
  void step(Optimizer& optimizer) { step(optimizer, {}); }
  /// The scale of the next update: smaller if any optimizer's gradients were not finite. Error if no optimizer has stepped,
  /// or if one has unscaled and not stepped.
  void update();

  /// From now on Errors of `read`, `stats` and `finish` name the first bad gradient by `model.named_parameters()`, while each update
  /// has the step of one optimizer. Keeps the tensors.
  void name_parameters(const nn::NamedTensors& named) { named_ = named; }

  /// i32, on the device: not 0 if the last update was not made. Later ones write it there.
  const Tensor& found() const { return found_; }

  /// The scale and its counts, as the last update left them.
  struct Stats {
    double scale = 0;      ///< of the next loss
    int64_t good = 0;      ///< updates since the scale was changed
    int64_t skipped = 0;   ///< in all
    int64_t in_a_row = 0;  ///< skipped since the last that was made
    double norm = 0;       ///< of the unscaled gradients of the step before
    /// In the last update: 0, or 1 + the place of the first parameter whose gradient was not finite, of those of its
    /// optimizer that have one.
    int64_t found = 0;
  };
  /// Waits for the device. Error, naming scale and counts, if the last update was skipped and the scale is below min_scale,
  /// or max_skips is reached.
  Stats read() const;
  /// The newest numbers that have arrived of those it has asked for, and asks for the present ones if none are under way.
  /// Waits for nothing: on a CUDA device they are of this update or of one before, at first of none. Errors as of `read`.
  Stats stats();

  /// The numbers after an update, on their way to the host while the device goes on with the next one. It may be started
  /// again and again; the scaler outlives it.
  class Reading {
   public:
    /// Asks for nothing yet.
    explicit Reading(const GradScaler& scaler);
    void start();          ///< asks for the numbers as they are after what is on the stream now
    bool is_done() const;  ///< whether `finish` would not wait
    /// What `read` would have given then, with its Error. Waits for that point of the stream alone.
    Stats finish();

   private:
    const GradScaler& scaler_;
    cuda::LateRead numbers_;
  };

  /// "scale", "good", "hysteresis", "skipped", "in_a_row", one element each.
  nn::NamedTensors state_dict() const;
  /// Error, and no change, if names, shapes or dtypes do not fit, or between scale and update.
  void load_state_dict(const nn::NamedTensors& state);

 private:
  enum class Stage { unscaled, stepped };
  struct Entry {
    Stage stage;
    Tensor found;
    TensorList parameters{};
  };
  /// Error if another optimizer of this update has one of the parameters.
  void check_disjoint(const Optimizer& optimizer, const TensorList& parameters) const;
  /// Of those that have a gradient, in their order; none where no parameters were named.
  std::vector<std::string> names_with_gradient(const TensorList& parameters) const;
  Tensor check_gradients(Optimizer& optimizer, const Tensor& scale, double clip, Tensor& found);
  nn::NamedTensors state() const;
  /// What Stats are made of, in their order.
  std::vector<TensorView> numbers() const;
  /// The Error of `read`.
  Stats usable(const Stats& stats) const;

  GradScalerOptions options_;
  Tensor scale_, good_, hysteresis_, skipped_, in_a_row_;
  Tensor norm_, found_;                        // of the last step, of the last update
  bool is_scaled_ = false;                     // a loss of this update
  detail::ScaledScope told_;                   // the thread that has scaled
  std::map<const Optimizer*, Entry> entries_;  // of this update
  nn::NamedTensors named_;
  std::vector<std::string> with_gradient_;  // names, in the step before
  Stats newest_;
  std::unique_ptr<Reading> reading_;  // of `stats`
};

}  // namespace reprise::optim
