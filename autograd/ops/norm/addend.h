// The gradient of a norm's input where another has arrived before it, as that of the residual beside a block: the norm's kernel
// adds to it, which has the bits of the pass over both that it saves.
#pragma once

#include "reprise/autograd/graph_task.h"
#include "reprise/autograd/ops/raw.h"

namespace reprise::autograd {

/// The addend for a kernel whose other rows are as those of new tensors: rows that wide accesses do not fit would have the kernel add in
/// another order.
inline Tensor fitting_addend(const Tensor& addend) {
  const Tensor rows = unit_stride(addend);
  const bool fits = rows.is_contiguous() && reinterpret_cast<uintptr_t>(rows.view().data) % 16 == 0;
  return fits ? rows : rows.clone();
}

/// The tensor for the gradient of x, `asked`; `addend` is what it is to be added to, if something has arrived. They are one tensor
/// where nothing else holds that.
inline Tensor sum_or_empty(const Tensor& x, const Edge& asked, Tensor& addend) {
  Tensor arrived = GraphTask::take_addend(asked);
  if (!arrived.defined()) return raw_empty_like(x);
  const bool is_ours = arrived.is_sole_owner();
  addend = fitting_addend(arrived);
  return is_ours || !addend.is_same(arrived) ? addend : raw_empty_like(x);
}

}  // namespace reprise::autograd
