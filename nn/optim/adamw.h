// AdamW (Loshchilov and Hutter 2019): Adam with decoupled weight decay, one launch over all parameters of a kind.
// Of parameters of 16 bits it keeps what they have no room for, or rounds them at random: an update is often
// smaller than half of their last bit (docs/mixed_precision.md).
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
  Master master = Master::f32;  ///< of parameters of 16 bits; Error for f16 unless it is f32
  /// Or bf16, or u8 in blocks with a largest one (tensors of at least 4,096 elements; the others in f32), rounded at random.
  /// Those of f64 parameters are f64.
  DType moments = DType::f32;
  uint64_t seed = 0;  ///< of what is rounded at random; the state holds it
};

class AdamW : public GroupOptimizer {
 public:
  AdamW(TensorList parameters, const AdamWOptions& options = {});
  /// Groups bring their own lr and weight decay: Error if the options give one.
  AdamW(std::vector<ParameterGroup> groups, const AdamWOptions& options = {});

  void step(double gradient_scale = 1) override;
  void step_if_finite(const Tensor& gradient_scale, const Tensor& found) override;
  void allocate_state() override;
  std::vector<WideParameter> wide_parameters() override;
  nn::NamedTensors state_dict() const override;
  void load_state_dict(const nn::NamedTensors& state) override;

 protected:
  /// The gradient of what this optimizer owns of a parameter that has one, contiguous.
  virtual Tensor owned_gradient(const Tensor& parameter, size_t place) const;

 private:
  struct Checked {};  // the options fit the groups
  AdamW(Checked, std::vector<ParameterGroup> groups, const AdamWOptions& options);
  /// What a step writes, by place; without a gradient, empty.
  struct Targets {
    TensorList gradients, parts, copies;
    std::vector<kernels::AdamWTensor> tensors;
  };
  /// All that may run out of memory: an update is made whole or not begun.
  Targets make_targets();
  void launch(Targets& targets, const std::vector<size_t>& places, kernels::AdamWOptions options);
  std::vector<int64_t> updates() const;
  void make_state(const Tensor& parameter, size_t place);
  void add_state_lists();
  bool is_split(const Tensor& parameter) const;
  DType moments_of(const Tensor& parameter) const;
  /// What is updated: a part of a parameter, or its master copy.
  Tensor updated_copy(const Tensor& part, size_t place) const;
  bool draws() const;

  AdamWOptions options_;
  TensorList first_, second_;                  // moments
  TensorList first_largest_, second_largest_;  // of their blocks, where they are u8
  Masters masters_;                            // with Master::f32
  TensorList remainder_;          // with Master::split, u8 (shape, 2): the lower halves of bf16 parameters
  std::vector<int64_t> updates_;  // by place, for the bias correction: a parameter may miss steps
  Tensor counts_;  // these on the device, since the last step_if_finite; undefined: none since step
};

}  // namespace reprise::optim
