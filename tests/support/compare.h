// Comparing tensors in tests: every failure prints index, got and want.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "reprise/core/tensor.h"
#include "reprise/tests/support/errors.h"

namespace reprise::testing {

/// Half the spacing of numbers near 1: the largest relative error of one rounding to `dtype`.
double unit_roundoff(DType dtype);

/// |got - want| <= tolerance * max(1, largest |want|) for every element, NaN only where NaN is wanted. The
/// scale is the tensor's, not the element's: rounding errors of a sum follow its terms, not its value.
::testing::AssertionResult is_close(const std::vector<double>& got, const std::vector<double>& want,
                                    double tolerance);
::testing::AssertionResult is_close(const Tensor& got, const Tensor& want, double tolerance);

/// Shape, dtype and every bit are the same; both may be undefined.
::testing::AssertionResult same_bits(const Tensor& got, const Tensor& want);

/// As many tensors, each with the bits of its own; those with names have the same ones in the same order.
::testing::AssertionResult same_bits(const TensorList& got, const TensorList& want);
::testing::AssertionResult same_bits(const std::vector<std::pair<std::string, Tensor>>& got,
                                     const std::vector<std::pair<std::string, Tensor>>& want);

/// The bytes of a tensor's elements in row-major order.
std::vector<unsigned char> bytes_of(const Tensor& x);

}  // namespace reprise::testing
