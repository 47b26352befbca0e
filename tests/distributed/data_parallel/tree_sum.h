// The definition of a sum over micro-batches (Note [Same bits on any ranks]), on whole tensors.
#pragma once

#include <algorithm>

#include "reprise/core/tensor.h"

namespace reprise::testing {

inline Tensor tree_sum(const TensorList& leaves, size_t begin, size_t end) {
  if (end - begin == 1) return leaves[begin];
  size_t left = 1;
  while (2 * left < end - begin) left *= 2;
  return tree_sum(leaves, begin, begin + left) + tree_sum(leaves, begin + left, end);
}

/// Of the gradients that each micro-batch alone gave a parameter of this shape: an absent one counts as zeros where another
/// one is there; undefined if none is.
inline Tensor tree_sum(TensorList leaves, const Shape& shape) {
  if (std::ranges::none_of(leaves, [](const Tensor& x) { return x.defined(); })) return {};
  for (Tensor& leaf : leaves)
    if (!leaf.defined()) leaf = Tensor::zeros(shape);
  return tree_sum(leaves, 0, leaves.size());
}

}  // namespace reprise::testing
