// Functions of numbers that write where they are told, for operations and for methods in place: y has the shape, dtype and device of x,
// and may be x. A power may have another dtype, if one of the two is of 16 bits and the other of f32 or 16.
#pragma once

#include <optional>

#include "reprise/core/tensor.h"

namespace reprise::autograd {

/// x held between the bounds. Error naming `clamp` if there is none, or the dtype does not have one.
void clamp_into(const Tensor& x, std::optional<double> low, std::optional<double> high, const Tensor& y);
/// x^exponent, of a floating dtype.
void pow_into(const Tensor& x, double exponent, const Tensor& y);

}  // namespace reprise::autograd
