// Rotary positions (Su et al. 2021): two channels a and b of each row of x, i and i + D/2 or 2 i and 2 i + 1, are turned by an angle,
//   y[a] = x[a] cos[i] - x[b] sin[i],   y[b] = x[b] cos[i] + x[a] sin[i].
// Backward is the same call on dy with -sin. x is read and y written once, 2 D elements for 3 D operations: memory is what it takes;
// the tables are broadcast, and come from a cache.
#pragma once

#include "reprise/kernels/attention/rotary_pairs.h"
#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

struct RotaryArguments {
  TensorView x;  ///< (..., D) of a floating dtype, with stride 1 in D
  TensorView y;  ///< the same, in f64 if x is, else in f32 or 16 bits, whatever x has; it may be x
  TensorView cosines,
      sines;  ///< (..., D/2) of the accumulator's dtype, broadcast to the rows of x, with stride 1 in D/2
  RotaryPairs pairs = RotaryPairs::halves;
};
extern Kernel<void(const RotaryArguments& arguments)> rotary;

/// The same with the first and the second of all pairs apart.
struct RotaryParts {
  TensorView a, b, cosines, sines, turned_a, turned_b;  ///< (..., D/2)
};
/// Error unless the views fit each other.
RotaryParts rotary_parts(const RotaryArguments& arguments);

}  // namespace reprise::kernels
