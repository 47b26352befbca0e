// Losses of probabilities; those of logits, and of numbers, are in autograd/ops.h.
#pragma once

#include "reprise/autograd/ops.h"

namespace reprise {

/// -(t log p + (1 - t) log(1 - p)) of probabilities and targets of one shape, both in [0, 1]. As in PyTorch no logarithm is less
/// than -100, so that no loss is infinite, and no gradient NaN. Of a sigmoid take `bce_with_logits`, which loses no digits.
Tensor bce_loss(const Tensor& probabilities, const Tensor& targets, Reduction reduction = Reduction::mean);

/// Options of `kl_div`.
struct KlDivOptions {
  bool log_target = false;  ///< the target is the logarithm of p
  /// Of all elements. For a batch of distributions divide `sum` by their number, which is what the divergence is; PyTorch calls
  /// that "batchmean".
  Reduction reduction = Reduction::mean;
};
/// p (log p - log q), Kullback and Leibler's divergence, of log q and p of one shape; 0 where p is 0.
Tensor kl_div(const Tensor& log_q, const Tensor& p, const KlDivOptions& options = {});

}  // namespace reprise
