// Exponential moving averages of many tensors in one launch.
#pragma once

#include <span>

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

/// Contiguous, of one shape; empty ones are left out. The value has the average's dtype, or 16 bits where that is f32.
struct LerpTensor {
  TensorView average, value;
  /// Optional, u8 (shape, 2): the lower half of a bf16 value; both together are an f32 (rounding.h).
  TensorView remainder{};
};

struct LerpOptions {
  double decay = 0;
  TensorView skip{};  ///< optional, one i32: if it is not 0, nothing is changed
};

/// average = decay average + (1 - decay) value, with the bits of the product and then the sum, each rounded to the dtype;
/// of dtypes that are not floating, average = value. It moves 12 bytes per f32 number.
extern Kernel<void(std::span<const LerpTensor> tensors, const LerpOptions& options)> lerp;

}  // namespace reprise::kernels
