// Stochastic gradient descent with momentum (Sutskever et al. 2013), as PyTorch defines it.
#pragma once

#include "reprise/nn/optim/optimizer.h"

namespace reprise::optim {

struct SgdOptions {
  double lr = 1e-2;
  double momentum = 0;
  bool nesterov = false;    ///< needs momentum
  double weight_decay = 0;  ///< coupled: added to the gradient
};

class Sgd final : public Optimizer {
 public:
  Sgd(TensorList parameters, const SgdOptions& options = {});
  /// Groups bring their own lr and weight decay.
  Sgd(std::vector<ParameterGroup> groups, const SgdOptions& options = {});

  void step(double gradient_scale = 1) override;
  nn::NamedTensors state_dict() const override;
  void load_state_dict(const nn::NamedTensors& state) override;

 private:
  SgdOptions options_;
  TensorList velocity_;  // by place; undefined until the parameter's first gradient
};

}  // namespace reprise::optim
