// Lamb (You et al. 2020, "Large batch optimization for deep learning"): Adam whose step for each tensor is as
// long as a share of that tensor's own norm.
#pragma once

#include "reprise/nn/optim/optimizer.h"
#include "reprise/nn/optim/setting.h"

namespace reprise::optim {

struct LambOptions {
  Setting lr = Setting::by_default(1e-3);
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-6;
  Setting weight_decay = Setting::by_default(0.01);
};

/// As timm's, whose `max_grad_norm` is the caller's `gradient_scale`:
///   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
///   u = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps) + wd p
///   p = p - lr |p| / |u| u, with 1 for |p| / |u| where a norm is 0 or the tensor does not decay
/// Parameters of f32 or f64; Error for others.
class Lamb final : public GroupOptimizer {
 public:
  Lamb(TensorList parameters, const LambOptions& options = {});
  /// Groups bring their own lr and weight decay: Error if the options give one.
  Lamb(std::vector<ParameterGroup> groups, const LambOptions& options = {});

  void step(double gradient_scale = 1) override;
  void allocate_state() override;
  std::vector<size_t> step_temporaries() const override;

 private:
  struct Checked {};  // the options fit the groups
  Lamb(Checked, std::vector<ParameterGroup> groups, const LambOptions& options);
  void update(const ParameterGroup& group, const Tensor& parameter, const Tensor& gradient, size_t place);

  LambOptions options_;
  TensorList first_, second_;  // moments
};

}  // namespace reprise::optim
