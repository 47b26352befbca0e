// Optimizer updates over many tensors in one launch each: every element is read and written once.
#pragma once

#include <span>

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

/// Whose draws the elements of a tensor have.
struct DrawPlace {
  int64_t parameter = 0;  ///< place among the parameters of the optimizer
  int64_t element = 0;    ///< the first one's number in that parameter: not 0 where a tensor is a part of it
};

/// One parameter and its state; all contiguous, of one size. What is stored in 16 bits is computed in f32, as the rest is
/// (f64 for f64 parameters). A parameter is f32 or f64, or bf16: then in two halves, or rounded at random (rounding.h).
struct AdamWTensor {
  TensorView parameter;  ///< read and written
  TensorView
      gradient;  ///< f32, or of 16 bits: those that the parameter or its rounded copy has, where one has
  TensorView first_moment;   ///< f32; bf16, rounded at random; or u8, in blocks
  TensorView second_moment;  ///< of the same dtype
  double lr = 0;             ///< of this tensor's group
  double weight_decay = 0;   ///< of this tensor's group; decoupled
  /// Optional: the new parameter, f32, is written here too, rounded to bf16 or f16. It is what a model computes with
  /// whose `parameter` is the master copy (Micikevicius et al. 2018, 3.1).
  TensorView rounded{};
  /// Optional: how many updates this tensor has had, one i64 in memory: its step is that plus 1, whatever the
  /// options say.
  TensorView updates{};
  /// Optional, u8 (the parameter's shape, 2): the lower half of a bf16 parameter, low byte first. The two halves are an
  /// f32, and the parameter is it rounded half up.
  TensorView remainder{};
  DrawPlace place{};  ///< its element is a multiple of 256
  /// @{
  /// Of moments in u8, f32: the largest of each block of 256 elements. See Note [Blocks of 8-bit moments].
  TensorView first_largest{}, second_largest{};
  /// @}
};

/// Numbers of a step that are read from the device's memory when the kernel runs, so that a captured graph
/// can be replayed with others, and a norm or a check found on the device need not visit the host. Each is
/// absent, or one element.
struct StepNumbers {
  TensorView lr_factor{};       ///< f64: the lr of every tensor is multiplied by it
  TensorView gradient_scale{};  ///< f64: instead of the option
  TensorView step{};            ///< i64: instead of the option
  TensorView skip{};            ///< i32: if it is not 0, nothing is updated (see norm_and_check)
};

/// The numbers of an update that all tensors share. What programs write is optim::AdamWOptions.
struct AdamWOptions {
  double beta1 = 0.9;         ///< share that the first moment keeps, in [0, 1)
  double beta2 = 0.999;       ///< share that the second moment keeps, in [0, 1)
  double eps = 1e-8;          ///< added to the root of the second moment
  int64_t step = 1;           ///< counts from 1
  double gradient_scale = 1;  ///< gradients are multiplied by this first (clipping, loss scale)
  StepNumbers in_memory{};    ///< in place of these, where they are given
  uint64_t seed = 0;          ///< of the draws, see Note [Draws of an optimizer]
  int64_t parameters = 1;     ///< of the optimizer, those without a gradient too
};

/// AdamW (Loshchilov and Hutter 2019), decoupled weight decay:
///   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
///   p = p (1 - lr wd) - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
/// The update takes m and v before they are rounded.
extern Kernel<void(std::span<const AdamWTensor> tensors, const AdamWOptions& options)> adamw;

/// One parameter and its velocity; all contiguous, of one size. Parameters are stored as an AdamWTensor's.
struct SgdTensor {
  TensorView parameter;     ///< read and written
  TensorView gradient;      ///< of the dtypes of an AdamWTensor's
  TensorView velocity;      ///< f32, or f64 of an f64 parameter; absent when momentum is 0
  double lr = 0;            ///< of this tensor's group
  double weight_decay = 0;  ///< coupled: added to the gradient
  TensorView rounded{};     ///< optional: as AdamW's
  TensorView remainder{};   ///< optional: as AdamW's
  DrawPlace place{};        ///< as AdamW's
};

/// The numbers of an update that all tensors share. What programs write is optim::SgdOptions.
struct SgdOptions {
  double momentum = 0;        ///< share of the velocity that stays
  bool nesterov = false;      ///< the update looks ahead by the momentum (Sutskever et al. 2013)
  bool first_step = false;    ///< velocity starts as the gradient itself, as PyTorch does
  double gradient_scale = 1;  ///< gradients are multiplied by this first
  StepNumbers in_memory{};    ///< in place of these, where they are given
  int64_t step = 1;           ///< counts from 1: draws depend on it, nothing else does
  uint64_t seed = 0;          ///< of the draws, see Note [Draws of an optimizer]
  int64_t parameters = 1;     ///< of the optimizer, those without a gradient too
};

/// Stochastic gradient descent:
///   g += weight_decay p;  v = momentum v + g;  p -= lr v, or with nesterov lr (g + momentum v)
extern Kernel<void(std::span<const SgdTensor> tensors, const SgdOptions& options)> sgd;

}  // namespace reprise::kernels
