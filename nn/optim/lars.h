// Lars (You et al. 2017, "Large batch training of convolutional networks"): SGD whose step for each tensor is
// as long as a share of that tensor's own norm.
#pragma once

#include "reprise/nn/optim/optimizer.h"
#include "reprise/nn/optim/setting.h"

namespace reprise::optim {

struct LarsOptions {
  Setting lr = Setting::by_default(1);
  double momentum = 0.9;
  Setting weight_decay = Setting::by_default(0);  ///< coupled: added to the gradient
  double trust = 1e-3;                            ///< the share of the norm
  double eps = 1e-8;
};

/// As timm's:
///   g = trust |p| / (|g| + wd |p| + eps) (g + wd p), where both norms are above 0 and the tensor decays
///   b = momentum b + g, g at first;  p = p - lr b
/// Parameters of f32 or f64; Error for others.
class Lars final : public GroupOptimizer {
 public:
  Lars(TensorList parameters, const LarsOptions& options = {});
  /// Groups bring their own lr and weight decay: Error if the options give one.
  Lars(std::vector<ParameterGroup> groups, const LarsOptions& options = {});

  void step(double gradient_scale = 1) override;
  void allocate_state() override;
  std::vector<size_t> step_temporaries() const override;

 private:
  struct Checked {};  // the options fit the groups
  Lars(Checked, std::vector<ParameterGroup> groups, const LarsOptions& options);
  void update(const ParameterGroup& group, const Tensor& parameter, Tensor gradient, size_t place);

  LarsOptions options_;
  TensorList velocity_;
};

}  // namespace reprise::optim
