// What a division leaves.
#pragma once

#include "reprise/core/tensor.h"

namespace reprise {

/// @{
/// a - b floor(a / b), exactly: it has the sign of b, as Python's % has, or is 0. NaN where b is 0, where a is infinite, and of NaN; a
/// finite number beside an infinite b of the other sign gives b. The gradient of b is -floor(a / b). Dtypes meet as for +. Of integers
/// the division by 0 is an Error, for which it waits for the device.
Tensor remainder(const Tensor& a, const Tensor& b);
Tensor remainder(const Tensor& a, double b);
Tensor operator%(const Tensor& a, const Tensor& b);
Tensor operator%(const Tensor& a, double b);
Tensor operator%(double a, const Tensor& b);
/// @}
/// @{
/// a - b trunc(a / b), exactly: it has the sign of a, as C's fmod. Of a finite number and an infinite b it is a; else as `remainder`.
Tensor fmod(const Tensor& a, const Tensor& b);
Tensor fmod(const Tensor& a, double b);
/// @}

}  // namespace reprise
