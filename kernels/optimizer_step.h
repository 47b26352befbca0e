// Optimizer updates and gradient norms over many tensors in one launch each: every element is read and
// written once.
#pragma once

#include <span>

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

/// One parameter and its state; all contiguous, of one size. f32 (f64 for f64 parameters) throughout.
struct AdamWTensor {
  TensorView parameter, gradient, first_moment, second_moment;
  double lr = 0;  ///< of this tensor's group
  double weight_decay = 0;
};

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  int64_t step = 1;           ///< counts from 1
  double gradient_scale = 1;  ///< gradients are multiplied by this first (clipping, loss scale)
};

/// AdamW (Loshchilov and Hutter 2019), decoupled weight decay:
///   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
///   p = p (1 - lr wd) - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
extern Kernel<void(std::span<const AdamWTensor> tensors, const AdamWOptions& options)> adamw;

struct SgdTensor {
  TensorView parameter, gradient;
  TensorView velocity;  ///< absent when momentum is 0
  double lr = 0;
  double weight_decay = 0;  ///< coupled: added to the gradient
};

struct SgdOptions {
  double momentum = 0;
  bool nesterov = false;
  bool first_step = false;  ///< velocity starts as the gradient itself, as PyTorch does
  double gradient_scale = 1;
};

extern Kernel<void(std::span<const SgdTensor> tensors, const SgdOptions& options)> sgd;

/// norm (f64 scalar) = sqrt(sum of squares over all tensors), accumulated in f64 over fixed pieces.
extern Kernel<void(std::span<const TensorView> tensors, const TensorView& norm)> global_norm;

}  // namespace reprise::kernels
