// AdamW (Loshchilov and Hutter 2019): Adam with decoupled weight decay, one launch over all parameters.
#pragma once

#include "reprise/nn/optim/optimizer.h"

namespace reprise::optim {

struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
};

class AdamW final : public Optimizer {
 public:
  AdamW(TensorList parameters, const AdamWOptions& options = {});
  /// Groups bring their own lr and weight decay.
  AdamW(std::vector<ParameterGroup> groups, const AdamWOptions& options = {});

  void step(double gradient_scale = 1) override;
  nn::NamedTensors state_dict() const override;
  void load_state_dict(const nn::NamedTensors& state) override;

 private:
  AdamWOptions options_;
  TensorList first_, second_;     // moments by place; undefined until the parameter's first gradient
  std::vector<int64_t> updates_;  // by place, for the bias correction: a parameter may miss steps
};

}  // namespace reprise::optim
