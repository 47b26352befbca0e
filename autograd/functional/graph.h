// What made a tensor, and hooks on several gradients at once.
#pragma once

#include <functional>
#include <string>

#include "reprise/core/tensor.h"

namespace reprise::autograd {

/// The operation that made x, as messages call it: "linear"; "" of a leaf, and of what no graph holds. (torch: grad_fn.name())
std::string grad_fn_name(const Tensor& x);

/// The operations behind x, a line each, indented by the steps from x: leaves with their shape, dtype and uses. What several operations
/// used is written out once, then as "(above)"; `depth` steps are written, deeper ones as "...". Error if x requires no gradient.
///
///     add
///       linear
///         leaf (4, 3) f32
///         leaf (3,) f32
///       linear (above)
std::string graph_to_string(const Tensor& x, int depth = 16);

/// Calls `hook` with the gradients of `tensors`, in their order, in each backward pass that reaches all of them, once the last one is
/// known and before leaves add them to `grad`. Regions of reentrant recompute are passes of their own: tensors within and without
/// never meet there. The result removes it. Error as of Tensor::register_hook, and on no tensors.
/// (torch.autograd.graph.register_multi_grad_hook, mode "all"; where a pass does not reach a tensor, that calls with None, this not.)
std::function<void()> register_multi_grad_hook(const TensorList& tensors,
                                               std::function<void(const TensorList& gradients)> hook);

}  // namespace reprise::autograd

namespace reprise {
using autograd::grad_fn_name;
using autograd::graph_to_string;
using autograd::register_multi_grad_hook;
}  // namespace reprise
