// For who changes a weight and its shadow together, as an optimizer does in one launch: what reads the weight next need
// not make the shadow anew.
#pragma once

#include "reprise/core/tensor.h"

namespace reprise::autograd {

/// The 16-bit value that a weight keeps of its present data, to be written beside it. Undefined if it keeps none, if
/// it is held elsewhere too, or while a graph is captured, whose launches would write it unseen.
Tensor shadow_to_write(const Tensor& weight);

/// Says that both were written, or neither: the shadow is that of the weight as it is now.
void keep_written_shadow(const Tensor& weight);

}  // namespace reprise::autograd
