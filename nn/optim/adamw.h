// AdamW (Loshchilov and Hutter 2019): Adam with decoupled weight decay, one launch over all parameters.
// Parameters of bf16 or f16 are updated in master copies of f32, and are these rounded: an update is often
// smaller than half of their last bit (Micikevicius et al. 2018, 3.1).
#pragma once

#include "reprise/kernels/optimizer/optimizer_step.h"
#include "reprise/nn/optim/optimizer.h"
#include "reprise/nn/optim/setting.h"

namespace reprise::optim {

struct AdamWOptions {
  Setting lr = Setting::by_default(1e-3);
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  Setting weight_decay = Setting::by_default(0.01);
};

class AdamW final : public GroupOptimizer {
 public:
  AdamW(TensorList parameters, const AdamWOptions& options = {});
  /// Groups bring their own lr and weight decay: Error if the options give one.
  AdamW(std::vector<ParameterGroup> groups, const AdamWOptions& options = {});

  void step(double gradient_scale = 1) override;
  void step_if_finite(const Tensor& gradient_scale, const Tensor& found) override;
  void allocate_state() override;
  nn::NamedTensors state_dict() const override;
  void load_state_dict(const nn::NamedTensors& state) override;

 private:
  struct Checked {};  // the options fit the groups
  AdamW(Checked, std::vector<ParameterGroup> groups, const AdamWOptions& options);
  /// What a step writes, by place; without a gradient, empty.
  struct Targets {
    TensorList gradients, copies;
    std::vector<kernels::AdamWTensor> tensors;
  };
  /// All that may run out of memory: an update is made whole or not begun.
  Targets make_targets();
  void launch(Targets& targets, const std::vector<size_t>& places, const kernels::AdamWOptions& options);
  std::vector<int64_t> updates() const;
  void make_moments(const Tensor& parameter, size_t place);
  /// The parameter, or its master copy with what others wrote to the parameter since the last step.
  Tensor updated_copy(const Tensor& parameter, size_t place) const;

  AdamWOptions options_;
  TensorList first_, second_;      // moments
  TensorList master_;              // of parameters of half types
  std::vector<uint64_t> written_;  // by place, the version of the parameter after the last step
  std::vector<int64_t> updates_;   // by place, for the bias correction: a parameter may miss steps
  Tensor counts_;  // these on the device, since the last step_if_finite; undefined: none since step
};

}  // namespace reprise::optim
