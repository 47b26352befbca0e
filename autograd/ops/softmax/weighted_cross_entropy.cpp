#include "reprise/autograd/ops/softmax/weighted_cross_entropy.h"

#include <algorithm>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/autograd/ops/index/along_dim.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/softmax/soft_cross_entropy.h"

namespace reprise::autograd {
namespace {

// The sum of q log p over the classes of each row. What q lacks adds nothing, also where its logit is -inf.
Tensor row_sums(const Tensor& q, const Tensor& log_p) { return sum(masked_fill(q * log_p, q == 0, 0), {-1}); }

Tensor against_classes(const Tensor& log_p, const Tensor& targets, const CrossEntropyOptions& options) {
  const double smoothing = options.label_smoothing;
  const Tensor of_targets = nll_loss(log_p, targets,
                                     {.ignore_index = options.ignore_index,
                                      .reduction = smoothing == 0 ? options.reduction : Reduction::none,
                                      .weight = options.weight});
  if (smoothing == 0) return of_targets;
  const Tensor ignored = targets == double(options.ignore_index);
  const Tensor of_all = row_sums(options.weight, log_p) * (-smoothing / double(log_p.size(-1)));
  const Tensor losses = of_targets * (1 - smoothing) + masked_fill(of_all, ignored, 0);
  if (options.reduction == Reduction::none) return losses;
  if (options.reduction == Reduction::sum) return sum(losses);
  return weighted_mean(losses, row_weights(options.weight, masked_fill(targets, ignored, 0), ignored));
}

Tensor against_probabilities(const Tensor& log_p, const Tensor& targets, const CrossEntropyOptions& options) {
  const Tensor q = soft_distribution(targets, options, log_p.dtype()) * options.weight;
  const Tensor losses = -row_sums(q, log_p);
  if (options.reduction == Reduction::none) return losses;
  if (options.reduction == Reduction::sum) return sum(losses);
  return sum(losses) / double(std::max<int64_t>(1, losses.numel()));
}

}  // namespace

void check_classes(const Tensor& logits, const Tensor& targets) {
  check(logits.rank() >= 1 && rows_shape(logits) == targets.shape(), "cross_entropy: logits ", logits.shape(),
        " need targets ", rows_shape(logits), ", got ", targets.shape());
  check(targets.dtype() == DType::i64, "cross_entropy: targets must be i64, i32 or probabilities, got ",
        targets.dtype());
}

void check_probabilities(const Tensor& logits, const Tensor& targets) {
  check(logits.rank() >= 1 && logits.shape() == targets.shape(), "cross_entropy: logits ", logits.shape(),
        " and probabilities ", targets.shape(), " differ in shape");
  check_floating("cross_entropy", logits);
  check_device("cross_entropy", logits, targets);
}

Tensor class_weights(const char* op, const Tensor& weight, const Tensor& x) {
  check(weight.shape() == Shape{x.size(-1)} && is_floating(weight.dtype()), op, ": weight is ",
        weight.dtype(), ' ', weight.shape(), ", should be of a floating dtype and ", Shape{x.size(-1)},
        ", a number per class of ", x.shape());
  check_device(op, x, weight);
  check(!grad_mode_enabled() || !weight.requires_grad(), op, ": gives the weight ", weight.dtype(), ' ',
        weight.shape(), " of classes no gradient; detach it");
  return cast(weight, statistics_dtype(x));
}

Tensor row_weights(const Tensor& weight, const Tensor& classes, const Tensor& ignored) {
  const Tensor taken = index_select(weight, 0, reshape(classes, {classes.numel()}));
  return masked_fill(reshape(taken, classes.shape()), ignored, 0);
}

Tensor weighted_mean(const Tensor& losses, const Tensor& weights) {
  const Tensor total = sum(weights);
  return sum(losses) / masked_fill(total, total == 0, 1);
}

Tensor weighted_cross_entropy(const Tensor& logits, const Tensor& targets,
                              const CrossEntropyOptions& options) {
  const bool has_classes = !is_floating(targets.dtype());
  if (has_classes)
    check_classes(logits, targets);
  else
    check_probabilities(logits, targets);
  check_floating("cross_entropy", logits);
  check(options.label_smoothing >= 0 && options.label_smoothing <= 1, "cross_entropy: label_smoothing is ",
        options.label_smoothing, ", should be in [0, 1]");
  check(has_classes || !grad_mode_enabled() || !targets.requires_grad(),
        "cross_entropy: gives probabilities no gradient; detach the targets");
  const bool is_autocast = amp::autocast_dtype(logits.device()).has_value();
  const DType dtype = options.out.value_or(is_autocast ? statistics_dtype(logits) : logits.dtype());
  const amp::AutocastOff off;
  const Tensor log_p = log_softmax(logits, {.out = statistics_dtype(logits)});
  CrossEntropyOptions wide = options;
  wide.weight = class_weights("cross_entropy", options.weight, log_p);
  return cast(
      has_classes ? against_classes(log_p, targets, wide) : against_probabilities(log_p, targets, wide),
      dtype);
}

}  // namespace reprise::autograd
