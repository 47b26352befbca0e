// Functions of numbers that write where they are told, for operations and for methods in place: y has the shape, dtype and device of x,
// and may be x.
#pragma once

#include <optional>

#include "reprise/core/tensor.h"

namespace reprise::autograd {

/// x held between the bounds. Error naming `clamp` if there is none, or the dtype does not have one.
void clamp_into(const Tensor& x, std::optional<double> low, std::optional<double> high, const Tensor& y);
/// x^exponent, of a floating dtype.
void pow_into(const Tensor& x, double exponent, const Tensor& y);

}  // namespace reprise::autograd
