// Lamb (You et al. 2020, "Large batch optimization for deep learning"): Adam whose step for each tensor is as
// long as a share of that tensor's own norm.
#pragma once

#include "reprise/nn/optim/optimizer.h"
#include "reprise/nn/optim/setting.h"

namespace reprise::optim {

/// The numbers of Lamb's formula, by default timm's.
struct LambOptions {
  Setting lr = Setting::by_default(1e-3);  ///< of the parameters; groups have their own
  double beta1 = 0.9;                      ///< share that the first moment keeps per update, in [0, 1)
  double beta2 = 0.999;                    ///< share that the second moment keeps, in [0, 1)
  double eps = 1e-6;                       ///< added to the root of the second moment
  Setting weight_decay = Setting::by_default(0.01);  ///< part of the update u; groups have their own
};

/// As timm's, whose `max_grad_norm` is the caller's `gradient_scale`:
///   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
///   u = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps) + wd p
///   p = p - lr |p| / |u| u, with 1 for |p| / |u| where a norm is 0 or the tensor does not decay
/// where t counts the updates of that parameter, as AdamW's: it may miss steps. timm's counts all steps.
/// Parameters of f32 or f64; Error for others.
class Lamb final : public GroupOptimizer {
 public:
  /// One group of `parameters`, with the options' lr and weight decay. Error unless they are leaves that require a
  /// gradient, contiguous, on one device, each given once; and if a number is out of its range.
  Lamb(TensorList parameters, const LambOptions& options = {});
  /// Groups bring their own lr and weight decay: Error if the options give one.
  Lamb(std::vector<ParameterGroup> groups, const LambOptions& options = {});

  /// One update from the gradients, each multiplied by `gradient_scale` first; parameters without one stay. It goes
  /// parameter by parameter: where one runs out of memory, those before it are updated.
  void step(double gradient_scale = 1) override;
  /// Makes both moments now rather than in the first step.
  void allocate_state() override;
  /// Bytes that a step takes at once for a while: six tensors of the largest parameter's size.
  std::vector<size_t> step_temporaries() const override;
  /// Copies values in. Error, and no change, if names, shapes or dtypes do not fit the parameters.
  void load_state_dict(const nn::NamedTensors& state) override;

 protected:
  /// "steps", and the "updates" of each parameter.
  nn::NamedTensors counts() const override;

 private:
  struct Checked {};  // the options fit the groups
  Lamb(Checked, std::vector<ParameterGroup> groups, const LambOptions& options);
  void update(const ParameterGroup& group, const Tensor& parameter, const Tensor& gradient, size_t place);

  LambOptions options_;
  TensorList first_, second_;     // moments
  std::vector<int64_t> updates_;  // by place, for the bias correction
};

}  // namespace reprise::optim
