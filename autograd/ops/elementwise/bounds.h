// Numbers held between bounds that are tensors. Between numbers: `clamp` of autograd/ops.h.
#pragma once

#include <concepts>

#include "reprise/core/tensor.h"

namespace reprise {

/// @{
/// x, but `low` where it is less, and `high` where it is more, which wins where high < low: of each element its own bounds, as the three
/// broadcast. A bound that is undefined, `{}`, is none; Error where both are. NaN if one is. The gradient goes to x where it lies between
/// the bounds or on one, else to the one that holds it, and where high < low all of it to `high`; where low = high to neither of
/// them, as in PyTorch. Dtypes meet as for +.
Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high);
template <std::derived_from<Tensor> Bound>
Tensor clamp(const Tensor& x, const Bound& low) {
  return clamp(x, low, Tensor());
}
/// @}

}  // namespace reprise
