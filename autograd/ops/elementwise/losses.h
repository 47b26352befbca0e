// Losses of probabilities; those of logits, and of numbers, are in autograd/ops.h.
#pragma once

#include "reprise/autograd/ops.h"

namespace reprise {

/// -(t log p + (1 - t) log(1 - p)) of probabilities and targets of one shape, both in [0, 1]. As in PyTorch no logarithm is less
/// than -100, so that no loss is infinite, and no gradient NaN. Of a sigmoid take `bce_with_logits`, which loses no digits.
Tensor bce_loss(const Tensor& probabilities, const Tensor& targets, Reduction reduction = Reduction::mean);

/// Options of `bce_loss`.
struct BceLossOptions {
  Tensor weight{};                        ///< optional: a factor of each element, which broadcasts to them
  Reduction reduction = Reduction::mean;  ///< mean: over all elements, whatever the factors are
};
/// The same with weights.
Tensor bce_loss(const Tensor& probabilities, const Tensor& targets, const BceLossOptions& options);

/// Options of `bce_with_logits`.
struct BceWithLogitsOptions {
  /// Optional: a factor of the first term alone, -t log sigmoid(x), which broadcasts to the elements: a number per class, (C) of
  /// logits (N, C), where positive examples are rare.
  Tensor pos_weight{};
  Tensor weight{};                        ///< optional: a factor of each element, which broadcasts to them
  Reduction reduction = Reduction::mean;  ///< mean: over all elements, whatever the factors are
};
/// `bce_with_logits` of autograd/ops.h with weights. The targets are of the logits' dtype: `cast(targets, logits.dtype())` of labels.
Tensor bce_with_logits(const Tensor& logits, const Tensor& targets, const BceWithLogitsOptions& options);

/// Options of `huber_loss`.
struct HuberLossOptions {
  double delta = 1;                       ///< above 0, and finite
  Reduction reduction = Reduction::mean;  ///< over all elements
};
/// (x - y)^2 / 2 where |x - y| < delta, delta (|x - y| - delta / 2) beyond, of x and y of one shape: delta times `smooth_l1`
/// with beta = delta (Huber 1964).
Tensor huber_loss(const Tensor& x, const Tensor& y, const HuberLossOptions& options = {});

/// Options of `kl_div`.
struct KlDivOptions {
  bool log_target = false;                ///< the target is the logarithm of p
  Reduction reduction = Reduction::mean;  ///< of all elements
  /// The sum by the size of the first dimension, instead of `reduction`: what the divergence of a batch of distributions is.
  bool batch_mean = false;
};
/// p (log p - log q), Kullback and Leibler's divergence, of log q and p of one shape; 0 where p is 0.
Tensor kl_div(const Tensor& log_q, const Tensor& p, const KlDivOptions& options = {});

}  // namespace reprise
