// Numbers where tensors stand, in functions that autograd/ops.h has for tensors. Operators with numbers: autograd/ops.h (+ - * /),
// conditions.h (== < and so on), remainder.h (%).
#pragma once

#include "reprise/core/tensor.h"

namespace reprise {

/// @{
/// a where the condition holds, b elsewhere, one of them a number in each place. It takes the dtype of the tensor beside it: Error if
/// that does not have it. Two numbers are f32.
Tensor where(const Tensor& condition, const Tensor& a, double b);
Tensor where(const Tensor& condition, double a, const Tensor& b);
Tensor where(const Tensor& condition, double a, double b);
/// @}
/// @{
/// The larger, or the smaller, of x and a number, which takes the dtype of x: Error if that does not have it. NaN if one is; where they
/// are equal x gets half the gradient. `clamp` gives it all.
Tensor maximum(const Tensor& x, double number);
Tensor maximum(double number, const Tensor& x);
Tensor minimum(const Tensor& x, double number);
Tensor minimum(double number, const Tensor& x);
/// @}
/// @{
/// x == number, and so on: the operators of conditions.h. Beside integers the number is compared exactly.
Tensor equal(const Tensor& x, double number);
Tensor not_equal(const Tensor& x, double number);
Tensor less(const Tensor& x, double number);
Tensor less_equal(const Tensor& x, double number);
Tensor greater(const Tensor& x, double number);
Tensor greater_equal(const Tensor& x, double number);
/// @}
/// @{
/// What the division of a number leaves: as remainder.h has it. The number takes the dtype of the divisor: Error if that does not have
/// it.
Tensor remainder(double a, const Tensor& b);
Tensor fmod(double a, const Tensor& b);
/// @}
/// `value`, a tensor of one element, where the mask holds; x elsewhere. Mask and x broadcast. The value is cast to the dtype of x, and
/// has the sum of the gradient there. Error on a floating one beside integers.
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value);

}  // namespace reprise
