// Lars (You et al. 2017, "Large batch training of convolutional networks"): SGD whose step for each tensor is
// as long as a share of that tensor's own norm.
#pragma once

#include "reprise/nn/optim/optimizer.h"
#include "reprise/nn/optim/setting.h"

namespace reprise::optim {

/// The numbers of Lars's formula.
struct LarsOptions {
  Setting lr = Setting::by_default(1);            ///< of the parameters; groups have their own
  double momentum = 0.9;                          ///< share that b keeps per update; 0: there is no b
  Setting weight_decay = Setting::by_default(0);  ///< coupled: added to the gradient
  double trust = 1e-3;                            ///< the share of the norm
  double eps = 1e-8;                              ///< added to |g| + wd |p|
};

/// As timm's:
///   g = trust |p| / (|g| + wd |p| + eps) (g + wd p), where both norms are above 0 and the tensor decays
///   b = momentum b + g, g at first;  p = p - lr b
/// Parameters of f32 or f64; Error for others.
class Lars final : public GroupOptimizer {
 public:
  /// One group of `parameters`, with the options' lr and weight decay. Error unless they are leaves that require a
  /// gradient, contiguous, on one device, each given once; and if a number is out of its range.
  Lars(TensorList parameters, const LarsOptions& options = {});
  /// Groups bring their own lr and weight decay: Error if the options give one.
  Lars(std::vector<ParameterGroup> groups, const LarsOptions& options = {});

  /// One update from the gradients, each multiplied by `gradient_scale` first; parameters without one stay. It goes
  /// parameter by parameter: where one runs out of memory, those before it are updated.
  void step(double gradient_scale = 1) override;
  /// Makes the b of each parameter, where there is momentum, now rather than in the first step.
  void allocate_state() override;
  /// Bytes that a step takes at once for a while: four tensors of the largest parameter's size.
  std::vector<size_t> step_temporaries() const override;

 private:
  struct Checked {};  // the options fit the groups
  Lars(Checked, std::vector<ParameterGroup> groups, const LarsOptions& options);
  void update(const ParameterGroup& group, const Tensor& parameter, Tensor gradient, size_t place);

  LarsOptions options_;
  TensorList velocity_;
};

}  // namespace reprise::optim
