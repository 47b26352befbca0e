// SwiGLU (Shazeer 2020):  y = silu(gate) * up
#pragma once

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

/// gate, up, y of one shape and dtype; any strides.
extern Kernel<void(const TensorView& gate, const TensorView& up, const TensorView& y)> swiglu;

struct SwigluBackwardArguments {
  TensorView dy, gate, up, dgate, dup;
};
extern Kernel<void(const SwigluBackwardArguments& arguments)> swiglu_backward;

}  // namespace reprise::kernels
