// Reductions over dimensions. Sums are a fixed tree of pieces: the same bits at any number of threads.
#pragma once

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

/// What a reduction makes of several numbers. What groups of ranks take is distributed::ReduceOp.
enum class ReduceOp : uint8_t { sum, max, min };

/// y = op over the dimensions in which y has size 1 and x has not. y has the rank of x.
/// Sums accumulate in f32 (f64 for f64; i64 for integers and bool, y then i64). Max and min carry NaN
/// through.
extern Kernel<void(ReduceOp op, const TensorView& x, const TensorView& y)> reduce;

/// y = index (i64) of the first largest element along the last dimension; y has size 1 there. NaN is largest.
extern Kernel<void(const TensorView& x, const TensorView& y)> argmax;

}  // namespace reprise::kernels
