// Exponential moving averages of many tensors in one launch.
#pragma once

#include <span>

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

/// Contiguous, of one shape and one dtype; empty ones are left out.
struct LerpTensor {
  TensorView average, value;
};

/// average = decay average + (1 - decay) value, with the bits of the product and then the sum, each rounded to the dtype;
/// of dtypes that are not floating, average = value. It moves 12 bytes per f32 number.
extern Kernel<void(std::span<const LerpTensor> tensors, double decay)> lerp;

}  // namespace reprise::kernels
