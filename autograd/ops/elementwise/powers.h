// Powers whose exponents are a tensor, and products over dimensions.
#pragma once

#include "reprise/core/tensor.h"

namespace reprise {

/// @{
/// base ^ exponent, which broadcast; both floating, half types in f32. NaN where a negative number has an exponent that is not
/// whole. As in PyTorch, 0 ^ 0 is 1, no gradient flows to the base where the exponent is 0, nor to the exponent where the
/// base is 0 and the exponent is not negative.
Tensor pow(const Tensor& base, const Tensor& exponent);
Tensor pow(double base, const Tensor& exponent);
/// @}

/// Products over dimensions, an empty list means all; 1 of none. They are taken by halves, as pairwise sums are, so that the
/// gradient of an element is the product of all others, zeros among them too. Half types are multiplied in f32. Of integers and bool it
/// is i64, which wraps.
Tensor prod(const Tensor& x, const Dims& dims = {}, bool keep_dims = false);

}  // namespace reprise
