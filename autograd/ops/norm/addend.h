// The gradient of a norm's input where another has arrived before it, as that of the residual beside a block: the norm's kernel
// adds to it, which has the bits of the pass over both that it saves.
#pragma once

#include "reprise/autograd/graph_task.h"
#include "reprise/autograd/ops/raw.h"

namespace reprise::autograd {

/// The tensor for the gradient of x, `asked`; `addend` is what it is to be added to, if something has arrived. They are one tensor
/// where nothing else holds that.
inline Tensor sum_or_empty(const Tensor& x, const Edge& asked, Tensor& addend) {
  addend = GraphTask::take_addend(asked);
  if (!addend.defined()) return raw_empty_like(x);
  if (addend.is_sole_owner() && addend.is_contiguous()) return addend;
  addend = unit_stride(addend);
  return raw_empty_like(x);
}

}  // namespace reprise::autograd
