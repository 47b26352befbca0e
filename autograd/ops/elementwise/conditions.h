// Conditions: comparisons as operators, with numbers too, and what makes one mask of several. None is differentiable. What masks
// pick: autograd/ops/index/indexing.h.
#pragma once

#include "reprise/core/tensor.h"

namespace reprise {

/// @{
/// As `equal`, `less` and so on. A number beside a tensor of a floating dtype is rounded to that dtype first, as in
/// PyTorch; beside integers it is compared exactly, fractions and what does not fit their dtype included.
Tensor operator==(const Tensor& a, const Tensor& b);
Tensor operator!=(const Tensor& a, const Tensor& b);
Tensor operator<(const Tensor& a, const Tensor& b);
Tensor operator<=(const Tensor& a, const Tensor& b);
Tensor operator>(const Tensor& a, const Tensor& b);
Tensor operator>=(const Tensor& a, const Tensor& b);
Tensor operator==(const Tensor& a, double b);
Tensor operator!=(const Tensor& a, double b);
Tensor operator<(const Tensor& a, double b);
Tensor operator<=(const Tensor& a, double b);
Tensor operator>(const Tensor& a, double b);
Tensor operator>=(const Tensor& a, double b);
Tensor operator==(double a, const Tensor& b);
Tensor operator!=(double a, const Tensor& b);
Tensor operator<(double a, const Tensor& b);
Tensor operator<=(double a, const Tensor& b);
Tensor operator>(double a, const Tensor& b);
Tensor operator>=(double a, const Tensor& b);
/// @}

/// @{
/// Logic of any dtypes: what is not 0 is true, NaN too. The shapes broadcast, and the result is bool.
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& x);
/// @}
/// @{
/// `logical_and`, `logical_or`, `logical_xor` and `logical_not` of masks: Error on another dtype than bool.
Tensor operator&(const Tensor& a, const Tensor& b);
Tensor operator|(const Tensor& a, const Tensor& b);
Tensor operator^(const Tensor& a, const Tensor& b);
Tensor operator~(const Tensor& x);
/// @}

Tensor isnan(const Tensor& x);     ///< bool; of integers false
Tensor isinf(const Tensor& x);     ///< of either sign
Tensor isfinite(const Tensor& x);  ///< bool: neither NaN nor infinite; of integers true

/// Options of `isclose` and `allclose`, with PyTorch's defaults.
struct CloseOptions {
  double rtol = 1e-5;      ///< share of |b|
  double atol = 1e-8;      ///< added to it
  bool equal_nan = false;  ///< whether NaN is close to NaN
};
/// Where |a - b| <= atol + rtol |b|, or a = b, infinite ones too: bool. The shapes broadcast, and dtypes of integers are compared in
/// f64. Error unless both tolerances are at least 0.
Tensor isclose(const Tensor& a, const Tensor& b, const CloseOptions& options = {});
/// Whether that is so everywhere. Waits for the device.
bool allclose(const Tensor& a, const Tensor& b, const CloseOptions& options = {});

/// @{
/// Whether one element, or each, is not 0, over some dimensions; an empty list means all of them. Of no elements: false, and
/// true.
Tensor any(const Tensor& x, const Dims& dims = {}, bool keep_dims = false);
Tensor all(const Tensor& x, const Dims& dims = {}, bool keep_dims = false);
/// @}

}  // namespace reprise
