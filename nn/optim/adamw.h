// AdamW (Loshchilov and Hutter 2019): Adam with decoupled weight decay, one launch over all parameters of a kind.
// Of parameters of 16 bits it keeps what they have no room for, or rounds them at random: an update is often
// smaller than half of their last bit (docs/mixed_precision.md).
#pragma once

#include "reprise/kernels/optimizer/optimizer_step.h"
#include "reprise/nn/optim/optimizer.h"
#include "reprise/nn/optim/setting.h"

namespace reprise::optim {

/// The numbers of AdamW's formula, by default PyTorch's, and how it stores parameters and moments.
struct AdamWOptions {
  Setting lr = Setting::by_default(1e-3);  ///< of the parameters; groups have their own
  double beta1 = 0.9;                      ///< share that the first moment keeps per update, in [0, 1)
  double beta2 = 0.999;                    ///< share that the second moment keeps, in [0, 1)
  double eps = 1e-8;                       ///< added to the root of the second moment
  Setting weight_decay = Setting::by_default(0.01);  ///< decoupled; groups have their own
  Master master = Master::f32;  ///< of parameters of 16 bits; Error for f16 unless it is f32
  /// Or bf16, or u8 in blocks with a largest one (tensors of at least 4,096 elements; the others in f32), rounded at random.
  /// Those of f64 parameters are f64.
  DType moments = DType::f32;
  uint64_t seed = 0;  ///< of what is rounded at random; the state holds it
};

/// Update t of a parameter p, whose gradient is g:
///   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
///   p = p (1 - lr wd) - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
///
///   AdamW optimizer(decay_matrices(model, 1e-3, 0.1), {.beta2 = 0.95});
class AdamW : public GroupOptimizer {
 public:
  /// One group of `parameters`, with the options' lr and weight decay. Error unless they are leaves that require a
  /// gradient, contiguous, on one device, each given once; and if a number is out of its range.
  AdamW(TensorList parameters, const AdamWOptions& options = {});
  /// Groups bring their own lr and weight decay: Error if the options give one.
  AdamW(std::vector<ParameterGroup> groups, const AdamWOptions& options = {});

  /// One update from the gradients, each multiplied by `gradient_scale` first; parameters without one stay. One launch
  /// for all parameters that have had as many updates: as a rule, for all.
  void step(double gradient_scale = 1) override;
  /// As `step`, with `gradient_scale` (f64) and `found` (i32) of one element each on the device, neither of which it
  /// waits for; no update where `found` is not 0.
  void step_if_finite(const Tensor& gradient_scale, const Tensor& found) override;
  /// Makes the moments, and what is kept beside parameters of 16 bits, now rather than in the first step.
  void allocate_state() override;
  /// What averages follow: master copies, or the parameters with their lower halves (Master::split); else these
  /// themselves.
  std::vector<WideParameter> wide_parameters() override;
  /// Copies values in. Error, and no change, if names, shapes or dtypes do not fit the parameters, `master` and
  /// `moments`.
  void load_state_dict(const nn::NamedTensors& state) override;

 protected:
  /// "steps", the "updates" of each parameter, and "seed" where numbers are drawn.
  nn::NamedTensors counts() const override;

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
  DType moments_of(const Tensor& parameter) const;
  bool draws() const;

  AdamWOptions options_;
  TensorList first_, second_;                  // moments
  TensorList first_largest_, second_largest_;  // of their blocks, where they are u8
  Masters masters_;
  std::vector<int64_t> updates_;  // by place, for the bias correction: a parameter may miss steps
  Tensor counts_;  // these on the device, since the last step_if_finite; undefined: none since step
};

}  // namespace reprise::optim
