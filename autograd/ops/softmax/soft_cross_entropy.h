// Cross-entropy against probabilities, which `cross_entropy` takes targets of a floating dtype for.
#pragma once

#include "reprise/autograd/ops.h"

namespace reprise::autograd {

/// Whether the logits may be written over: no attribute of the operation, as it changes no result.
struct GivenAway {
  bool logits = false;
};

/// logits and targets (..., V). The logits' gradient alone: Error in a graph if the targets want one.
Tensor soft_cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options,
                          const GivenAway& given_away);

/// The gradient of the logits (rows, V), made in forward, times that of the loss: a number, or one for each row, in any
/// shape. In the memory of `dlogits` if nothing else holds that.
Tensor times_upstream(const Tensor& dlogits, const Tensor& dy);

/// The distribution that the loss compares with, in `dtype`.
Tensor soft_distribution(const Tensor& targets, const CrossEntropyOptions& options, DType dtype);

}  // namespace reprise::autograd
