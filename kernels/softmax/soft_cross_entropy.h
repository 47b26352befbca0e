// Softmax cross-entropy against probabilities p, as mixing and distillation give them:
//   q = (1 - smoothing) p + smoothing / V
//   loss_i = -sum_v q_v log softmax(logits_i)_v,   dlogits_i = scale * (softmax(logits_i) sum_v q_v - q)
// The probabilities of a row need not add up to 1; where q is 0 a logit of -inf costs nothing.
#pragma once

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

/// logits (N, V), stride 1 in the last dimension, as in targets, which are f64 for f64, else f32 or 16 bits, whatever the logits are; losses
/// (N) f32 (f64 for f64); dlogits (N, V), optional, may be logits itself, is rounded once.
struct SoftCrossEntropyArguments {
  TensorView logits, targets;
  double label_smoothing = 0;  ///< in [0, 1]
  TensorView losses;
  TensorView dlogits{};
  double scale = 1;  ///< dlogits is multiplied by it
  TensorView dy{};   ///< and row i by dy_i: (N), of the dtype of losses and any stride, also 0; optional
};
extern Kernel<void(const SoftCrossEntropyArguments& arguments)> soft_cross_entropy;

/// What any device checks before it launches.
void check_soft_cross_entropy(const SoftCrossEntropyArguments& arguments);

}  // namespace reprise::kernels
