// GradScaler: training in f16 without losing small gradients (Micikevicius et al. 2018, 3.2).
#pragma once

#include <atomic>
#include <map>
#include <memory>

#include "reprise/nn/optim/optimizer.h"

namespace reprise::optim {

struct GradScalerOptions {
  double init_scale = 65536;  ///< scale, growth and backoff are powers of two: they round nothing
  double growth = 2;          ///< above 1
  double backoff = 0.5;       ///< below 1
  int64_t interval = 2000;    ///< good updates before the scale grows
  int64_t hysteresis = 1;     ///< bad updates before it backs off (Megatron-LM: 2)
  double min_scale = 1;       ///< below it, `read` throws
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
/// Scale, counts and what was found lie on the device, and no call waits for it but `read`, `state_dict` and
/// `load_state_dict`. A gradient that neither over- nor underflows has the bits of training without a scale. An update
/// that is not made leaves parameters, moments and their counts as they are. The rule is PyTorch's torch.amp.GradScaler's.
class GradScaler {
 public:
  /// Error, naming option and value, unless the options are as said there.
  explicit GradScaler(Device device, const GradScalerOptions& options = {});
  ~GradScaler();
  GradScaler(const GradScaler&) = delete;

  /// loss * scale. Error unless the loss is in f32 or f64, and there; after a step of this update.
  Tensor scale(const Tensor& loss);
  /// Puts each gradient divided by the scale in its place, for who wants to look at them or change them; `step` then takes
  /// them as they are. Error on 16-bit gradients, which would underflow; if done already for this update.
  void unscale(Optimizer& optimizer);
  struct StepOptions {
    double clip = 0;  ///< the largest norm of the unscaled gradients; 0: any
  };
  /// One update, if all of this optimizer's gradients are finite. Error without `scale` before, or if done already.
  void step(Optimizer& optimizer, const StepOptions& options);
  void step(Optimizer& optimizer) { step(optimizer, {}); }
  /// The scale of the next update: smaller if any optimizer's gradients were not finite. Error if no optimizer has stepped,
  /// or if one has unscaled and not stepped.
  void update();

  struct Stats {
    double scale = 0;
    int64_t good = 0;      ///< updates since the scale was changed
    int64_t skipped = 0;   ///< in all
    int64_t in_a_row = 0;  ///< skipped since the last that was made
    double norm = 0;       ///< of the unscaled gradients of the step before
    /// In the last update: 0, or 1 + the place of the first parameter whose gradient was not finite, of those of its
    /// optimizer that have one.
    int64_t found = 0;
  };
  /// Waits for the device. Error, naming scale and counts, if the scale is below min_scale or max_skips is reached.
  Stats read() const;

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
  Tensor check_gradients(const TensorList& gradients, const Tensor& scale, double clip, Tensor& found);
  nn::NamedTensors state() const;
  /// Whether gradients of this thread are those of a scaled loss.
  void tell_thread(bool are_scaled);

  GradScalerOptions options_;
  Tensor scale_, good_, hysteresis_, skipped_, in_a_row_;
  Tensor norm_, found_;                     // of the last step, of the last update
  bool is_scaled_ = false;                  // a loss of this update
  std::shared_ptr<std::atomic<int>> told_;  // the count of the thread whose gradients no unscale has divided
  std::map<const Optimizer*, Entry> entries_;  // of this update
};

namespace detail {
/// How many scalers say that gradients of this thread are those of a scaled loss.
const std::shared_ptr<std::atomic<int>>& scaled_gradients();
}  // namespace detail

}  // namespace reprise::optim
