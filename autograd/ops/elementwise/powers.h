// Powers whose exponents are tensors, and products over dimensions.
#pragma once

#include "reprise/core/tensor.h"

namespace reprise {

/// @{
/// base ^ exponent, which broadcast; half types in f32. NaN where a negative number has an exponent that is not whole. As in PyTorch,
/// 0 ^ 0 is 1, no gradient flows to the base where the exponent is 0, nor to the exponent where the base is 0 and the exponent is not
/// negative. Integers to integers are exact modulo the range of their dtype, for which it waits for the device; to a negative power 1
/// and -1 are 1 or -1, and all others 0. A number as base has the dtype of the exponent: Error if that does not have it. Error of bool.
Tensor pow(const Tensor& base, const Tensor& exponent);
Tensor pow(double base, const Tensor& exponent);
/// @}

/// Products over dimensions, an empty list means all; 1 of none. They are taken by halves, as pairwise sums are, so that the
/// gradient of an element is the product of all others, zeros among them too. Half types are multiplied in f32. Of integers and bool it
/// is i64, which wraps.
Tensor prod(const Tensor& x, const Dims& dims = {}, bool keep_dims = false);

}  // namespace reprise
