// Random tensors from Philox: element i (row-major) is a pure function of (seed, offset, i). Uniform numbers
// have the same bits on every device; normal ones come from the same words, by the same steps, but through
// the device's log, cos and sin, which differ in the last bits.
#pragma once

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

/// y uniform in [low, high).
extern Kernel<void(const TensorView& y, double low, double high, uint64_t seed, uint64_t offset)>
    fill_uniform;

/// y normal, by Box-Muller in f32 (f64 for f64).
extern Kernel<void(const TensorView& y, double mean, double stddev, uint64_t seed, uint64_t offset)>
    fill_normal;

}  // namespace reprise::kernels
