// Rotary positions (Su et al. 2021): channels i and i + D/2 of each row of x are turned by an angle,
//   y[i] = x[i] cos[i] - x[i + D/2] sin[i],   y[i + D/2] = x[i + D/2] cos[i] + x[i] sin[i].
// Backward is the same call on dy with -sin. x is read and y written once, 2 D elements for 3 D operations: memory is what it takes;
// the tables are broadcast, and come from a cache.
#pragma once

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

struct RotaryArguments {
  TensorView x, y;  ///< (..., D) of one floating dtype, with stride 1 in D; y may be x
  TensorView cosines,
      sines;  ///< (..., D/2) of the accumulator's dtype, broadcast to the rows of x, with stride 1 in D/2
};
extern Kernel<void(const RotaryArguments& arguments)> rotary;

/// The same by halves of the rows.
struct RotaryHalves {
  TensorView a, b, cosines, sines, turned_a, turned_b;  ///< (..., D/2)
};
/// Error unless the views fit each other.
RotaryHalves rotary_halves(const RotaryArguments& arguments);

}  // namespace reprise::kernels
