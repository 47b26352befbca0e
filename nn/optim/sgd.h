// Stochastic gradient descent with momentum (Sutskever et al. 2013), as PyTorch defines it. Of parameters of 16 bits it keeps
// what they have no room for, or rounds them at random, as AdamW does.
#pragma once

#include "reprise/kernels/optimizer/optimizer_step.h"
#include "reprise/nn/optim/optimizer.h"
#include "reprise/nn/optim/setting.h"

namespace reprise::optim {

/// The numbers of Sgd's formula, and how it stores parameters.
struct SgdOptions {
  Setting lr = Setting::by_default(1e-2);  ///< of the parameters; groups have their own
  double momentum = 0;                     ///< share that the velocity keeps per update; 0: there is none
  bool nesterov = false;                   ///< needs momentum
  Setting weight_decay = Setting::by_default(0);  ///< coupled: added to the gradient
  Master master = Master::f32;  ///< of parameters of 16 bits; Error for f16 unless it is f32
  uint64_t seed = 0;            ///< of what is rounded at random; the state holds it
};

/// An update of a parameter p, whose gradient is g:
///   g = g + wd p;  v = momentum v + g, g at first
///   p = p - lr v, or with nesterov p - lr (g + momentum v)
class Sgd : public GroupOptimizer {
 public:
  /// One group of `parameters`, with the options' lr and weight decay. Error unless they are leaves that require a
  /// gradient, contiguous, on one device, each given once; and if a number is out of its range.
  Sgd(TensorList parameters, const SgdOptions& options = {});
  /// Groups bring their own lr and weight decay: Error if the options give one.
  Sgd(std::vector<ParameterGroup> groups, const SgdOptions& options = {});

  /// One update from the gradients, each multiplied by `gradient_scale` first; parameters without one stay. One launch
  /// for all parameters, and with momentum one for those that meet their first gradient.
  void step(double gradient_scale = 1) override;
  /// As `step`, with `gradient_scale` (f64) and `found` (i32) of one element each on the device, neither of which it
  /// waits for; no update where `found` is not 0.
  void step_if_finite(const Tensor& gradient_scale, const Tensor& found) override;
  /// Makes velocities, where there is momentum, and what is kept beside parameters of 16 bits, now rather than in the first step.
  void allocate_state() override;
  /// What averages follow: master copies, or the parameters with their lower halves (Master::split); else these
  /// themselves.
  std::vector<WideParameter> wide_parameters() override;
  /// Copies values in. Error, and no change, if names, shapes or dtypes do not fit the parameters, momentum and `master`.
  void load_state_dict(const nn::NamedTensors& state) override;

 protected:
  /// "steps", and "seed" where numbers are drawn.
  nn::NamedTensors counts() const override;

 private:
  struct Checked {};  // the options fit the groups
  Sgd(Checked, std::vector<ParameterGroup> groups, const SgdOptions& options);
  void update(kernels::SgdOptions options);
  bool make_velocity(const Tensor& parameter, size_t place);
  bool draws() const { return options_.master == Master::stochastic; }
  SgdOptions options_;
  TensorList velocity_;
  Masters masters_;
};

}  // namespace reprise::optim
