// Losses of classes that have weights: made of several operations, where the unweighted ones are one.
#pragma once

#include "reprise/autograd/ops.h"

namespace reprise::autograd {

/// Error unless the logits (..., V) fit class indices (...), or probabilities (..., V).
void check_classes(const Tensor& logits, const Tensor& targets);
void check_probabilities(const Tensor& logits, const Tensor& targets);

/// `weight` as f32, as f64 for x (..., V) of f64. Error naming `op` unless it is (V), of a floating dtype, where x is, and wants no
/// gradient.
Tensor class_weights(const char* op, const Tensor& weight, const Tensor& x);

/// The weight of each target's class, 0 where `ignored`. The classes are in [0, V).
Tensor row_weights(const Tensor& weight, const Tensor& classes, const Tensor& ignored);

/// The sum of losses by that of weights; 0 of rows that weigh nothing.
Tensor weighted_mean(const Tensor& losses, const Tensor& weights);

/// `cross_entropy` with a weight: it keeps the log-probabilities.
Tensor weighted_cross_entropy(const Tensor& logits, const Tensor& targets,
                              const CrossEntropyOptions& options);

}  // namespace reprise::autograd
