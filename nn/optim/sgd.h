// Stochastic gradient descent with momentum (Sutskever et al. 2013), as PyTorch defines it.
#pragma once

#include "reprise/kernels/optimizer/optimizer_step.h"
#include "reprise/nn/optim/optimizer.h"
#include "reprise/nn/optim/setting.h"

namespace reprise::optim {

/// The numbers of Sgd's formula.
struct SgdOptions {
  Setting lr = Setting::by_default(1e-2);  ///< of the parameters; groups have their own
  double momentum = 0;                     ///< share that the velocity keeps per update; 0: there is none
  bool nesterov = false;                   ///< needs momentum
  Setting weight_decay = Setting::by_default(0);  ///< coupled: added to the gradient
};

/// An update of a parameter p, whose gradient is g:
///   g = g + wd p;  v = momentum v + g, g at first
///   p = p - lr v, or with nesterov p - lr (g + momentum v)
/// Parameters of 16 bits are updated in master copies of f32, and are these rounded.
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
  /// Makes velocities, where there is momentum, and master copies now rather than in the first step.
  void allocate_state() override;
  /// What averages follow: master copies of parameters of 16 bits, the others themselves.
  std::vector<WideParameter> wide_parameters() override;

 private:
  struct Checked {};  // the options fit the groups
  Sgd(Checked, std::vector<ParameterGroup> groups, const SgdOptions& options);
  void update(double gradient_scale, const kernels::StepNumbers& in_memory);
  bool make_velocity(const Tensor& parameter, size_t place);
  SgdOptions options_;
  TensorList velocity_;
  Masters masters_;
};

}  // namespace reprise::optim
