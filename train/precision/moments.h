// Moments of 8 bits as a checkpoint holds them, and as f32 (kernels/optimizer/quantized.h).
#pragma once

#include <utility>

#include "reprise/core/tensor.h"

namespace reprise::train {

/// The numbers in f32, of codes (u8) and the largest of each block (f32); on the CPU. `positive`: second moments.
Tensor dequantized(const Tensor& codes, const Tensor& largest, bool positive);
/// Codes and the largest of each block, rounded to nearest: what they were made of before comes back to the bit.
std::pair<Tensor, Tensor> quantized(const Tensor& numbers, bool positive);

}  // namespace reprise::train
