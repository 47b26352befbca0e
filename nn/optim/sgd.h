// Stochastic gradient descent with momentum (Sutskever et al. 2013), as PyTorch defines it.
#pragma once

#include "reprise/kernels/optimizer/optimizer_step.h"
#include "reprise/nn/optim/optimizer.h"
#include "reprise/nn/optim/setting.h"

namespace reprise::optim {

struct SgdOptions {
  Setting lr = Setting::by_default(1e-2);
  double momentum = 0;
  bool nesterov = false;                          ///< needs momentum
  Setting weight_decay = Setting::by_default(0);  ///< coupled: added to the gradient
};

/// Parameters of 16 bits are updated in master copies of f32, and are these rounded.
class Sgd final : public GroupOptimizer {
 public:
  Sgd(TensorList parameters, const SgdOptions& options = {});
  /// Groups bring their own lr and weight decay: Error if the options give one.
  Sgd(std::vector<ParameterGroup> groups, const SgdOptions& options = {});

  void step(double gradient_scale = 1) override;
  void step_if_finite(const Tensor& gradient_scale, const Tensor& found) override;
  void allocate_state() override;
  std::vector<WideParameter> wide_parameters() override;

 private:
  struct Checked {};  // the options fit the groups
  Sgd(Checked, std::vector<ParameterGroup> groups, const SgdOptions& options);
  void update(double gradient_scale, const kernels::StepNumbers& in_memory);
  SgdOptions options_;
  TensorList velocity_;
  Masters masters_;
};

}  // namespace reprise::optim
