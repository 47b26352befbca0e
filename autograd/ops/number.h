// A number beside, or for, a tensor of integers.
#pragma once

#include <cmath>

#include "reprise/core/tensor.h"

namespace reprise::autograd {

/// What changes no number that it is added to: -0 + 0 would be 0.
inline constexpr double nothing = -0.0;

inline bool holds_whole_numbers(DType dtype) { return !is_floating(dtype) && dtype != DType::boolean; }

/// `value`, an operand of a tensor. Error naming `op` if the tensor holds integers and the value is none: a
/// fraction would be lost without a word.
inline double whole_number(const char* op, double value, DType dtype) {
  if (!holds_whole_numbers(dtype)) return value;
  check(value == std::nearbyint(value), op, ": ", value, " is not a whole number, and the tensor is ", dtype,
        "; cast it to a floating dtype first");
  check(value >= -0x1p63 && value < 0x1p63, op, ": ", value, " does not fit ", dtype);
  return value;
}

/// `value`, an element of a tensor. Error naming `op` if the dtype does not have it; bool has all numbers, as PyTorch's: kernels
/// take each but 0 for true, a fraction and NaN too.
inline double element(const char* op, double value, DType dtype) {
  whole_number(op, value, dtype);
  if (!holds_whole_numbers(dtype)) return value;
  const double limit = dtype == DType::i64 ? 0x1p63 : dtype == DType::i32 ? 0x1p31 : 0x1p8;
  check(value >= (dtype == DType::u8 ? 0 : -limit) && value < limit, op, ": ", value, " does not fit ",
        dtype);
  return value;
}

}  // namespace reprise::autograd
