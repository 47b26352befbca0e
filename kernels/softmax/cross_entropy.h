// Softmax cross-entropy, loss and gradient in one pass over the logits:
//   q = (1 - smoothing) * onehot(target) + smoothing / V
//   loss_i = -sum_v q_v log softmax(logits_i)_v,   dlogits_i = scale * (softmax(logits_i) - q)
// Rows with target == ignore_index give loss 0 and gradient 0. The gradient of logits in 16 bits can be made afterwards
// from the logits and a log-sum-exp per row, when the factor that it is scaled by is known.
#pragma once

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

inline constexpr int64_t kCrossEntropyBlock = 2048;  ///< logits that the CPU sums at once, within L1

struct CrossEntropyOptions {
  int64_t ignore_index = -100;
  double label_smoothing = 0;  ///< in [0, 1]
};

/// logits (N, V), stride 1 in the last dimension; targets i64 (N); losses f32 (f64 for f64) (N); dlogits (N,
/// V), optional, may be logits itself; scale f64, one element, optional: dlogits is multiplied by it. Error
/// on a target outside [0, V), with its row and value: on the CPU before anything is written; on CUDA where
/// the host next waits for the device, the loss of that row being NaN and its gradient 0.
struct CrossEntropyArguments {
  TensorView logits, targets;
  CrossEntropyOptions options{};
  TensorView losses;
  TensorView dlogits{}, scale{};
  TensorView log_sums{};  ///< log sum_v exp(logits_i)_v: f64 (N), contiguous, optional
};
extern Kernel<void(const CrossEntropyArguments& arguments)> cross_entropy;

/// dlogits_i = dy_i * scale * (softmax(logits_i) - q), rounded once. logits (N, V) in 16 bits, targets, options, scale
/// and log_sums as `cross_entropy` had and gave them; dy f32 (N), of any stride, also 0; dlogits may be logits itself.
/// Rows whose targets are outside [0, V) get 0.
struct CrossEntropyBackwardArguments {
  TensorView logits, targets;
  CrossEntropyOptions options{};
  TensorView log_sums, dy;
  TensorView scale{};
  TensorView dlogits;
};
extern Kernel<void(const CrossEntropyBackwardArguments& arguments)> cross_entropy_backward;

/// scale (f64, one element) = 1 / the number of targets (i64, (N)) that are not `ignore_index`, 1 if there
/// are none: what makes a mean. It stays on the device, so a step that takes the mean can be captured in a
/// graph.
extern Kernel<void(const TensorView& targets, int64_t ignore_index, const TensorView& scale)>
    cross_entropy_mean_scale;

/// What any device checks before it launches; the targets themselves aside.
void check_cross_entropy(const CrossEntropyArguments& arguments);
void check_cross_entropy_backward(const CrossEntropyBackwardArguments& arguments);
void check_mean_scale(const TensorView& targets, const TensorView& scale);

}  // namespace reprise::kernels
