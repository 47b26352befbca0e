// Combines several ranges of equal size element by element, in an order that the caller says.
#pragma once

#include <span>

#include "reprise/kernels/kernel.h"
#include "reprise/kernels/reduce/reduce.h"

namespace reprise::kernels {

/// A formula for a machine with a stack: push a source, or combine the last two.
struct TreeStep {
  /// What a step does.
  enum class Kind : uint8_t { push, add } kind = Kind::push;  ///< what this one does
  int node = 0;                                               ///< which source is pushed
  friend bool operator==(const TreeStep&, const TreeStep&) = default;
};

/// out[i] = what `steps` make of sources[k][i], divided by `divisor`, 1 for integers. Sources are contiguous, of out's dtype
/// and size, and each is pushed once, in their order. Half types are combined in f32 and rounded once per step; integers
/// wrap around; min and max are NaN where any of their numbers is. `out` may be one of the sources and overlaps no other.
/// For n sources it moves n + 1 times their bytes.
extern Kernel<void(std::span<const TensorView> sources, std::span<const TreeStep> steps, ReduceOp op,
                   int64_t divisor, const TensorView& out)>
    ordered_reduce;

}  // namespace reprise::kernels
