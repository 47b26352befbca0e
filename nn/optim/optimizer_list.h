// OptimizerList: several optimizers as one.
#pragma once

#include <functional>

#include "reprise/nn/optim/optimizer.h"

namespace reprise::optim {

/// Steps several optimizers together, such as AdamW for the matrices and SGD for the rest, where a training
/// loop takes one. They outlive it.
///
///   AdamW adamw(matrices, {.lr = 1e-3});
///   Sgd sgd({{.parameters = vectors, .lr = 1e-3, .lr_scale = 10}});
///   OptimizerList both({adamw, sgd});
///   both.set_lr(schedule(step));  // sgd's rate is ten times adamw's
///
/// Their state is saved under their places: "1.0.velocity".
class OptimizerList final : public Optimizer {
 public:
  /// Error if there are none, or if a parameter is in two of them.
  explicit OptimizerList(std::vector<std::reference_wrapper<Optimizer>> optimizers);

  /// In their order. Where one runs out of memory, those before it have stepped.
  void step(double gradient_scale = 1) override;
  /// In their order, each with these numbers: see GradScaler.
  void step_if_finite(const Tensor& gradient_scale, const Tensor& found) override;
  /// Makes the state of all of them now rather than in the first step.
  void allocate_state() override;
  /// Those of the optimizer that takes most: one steps after the other.
  std::vector<size_t> step_temporaries() const override;
  /// The groups of all optimizers, one optimizer after the other.
  std::vector<ParameterGroup*> all_groups() override;
  /// Each optimizer with what the names of its state begin with: "1." for the second.
  std::vector<std::pair<std::string, Optimizer*>> parts() override;
  /// What averages follow, of the parameters of `all_groups` in their order.
  std::vector<WideParameter> wide_parameters() override;
  int64_t steps() const override { return optimizers_[0].get().steps(); }  ///< those of the first
  /// Names begin with the optimizer's place: "1.0.velocity".
  nn::NamedTensors state_dict() const override;
  nn::NamedTensors own_state_dict() const override;  ///< the same, of what this rank is to save
  /// Copies values in. Error, and no change in any of them, if names, shapes or dtypes do not fit one.
  void load_state_dict(const nn::NamedTensors& state) override;

 private:
  nn::NamedTensors states(nn::NamedTensors (Optimizer::*of_each)() const) const;

  std::vector<std::reference_wrapper<Optimizer>> optimizers_;
};

}  // namespace reprise::optim
