// What made a tensor, hooks on the operation that did, and on several gradients at once.
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

/// Gets the gradients of an operation's results; returns as many in their place, or none to keep them.
using NodePrehook = std::function<TensorList(const TensorList& output_grads)>;
/// Gets the gradients of an operation's tensor arguments and those of its results; returns as many in the place of the first, or none
/// to keep them.
using NodeHook = std::function<TensorList(const TensorList& input_grads, const TensorList& output_grads)>;

/// @{
/// Calls `hook` in each backward pass where the operation that made x runs: before it, behind the hooks of its results and after
/// `grad` has taken what it was asked for; or behind it, before what it gives is added to what others gave. Hooks run in the order in
/// which they were added, each seeing what the last left. A result without a gradient is undefined to a prehook; to the operation and to
/// hooks behind it it is zeros, unless the operation tells the two apart. An argument that needs no gradient has an undefined one. Of a
/// region of reentrant recompute x has one operation, "checkpoint", whose arguments are its inputs and all tensors that it captured;
/// operations within are there in replays alone. With a hook behind it, it and `embedding` add up their gradients by themselves, which
/// may round the sum otherwise. The hook must not hold x. The result removes it. Error on a leaf, which no operation made.
/// (PyTorch: grad_fn.register_prehook and grad_fn.register_hook.)
std::function<void()> register_node_prehook(const Tensor& x, NodePrehook hook);
std::function<void()> register_node_hook(const Tensor& x, NodeHook hook);
/// @}

/// Calls `hook` with the gradients of `tensors`, in their order, in each backward pass that reaches all of them, once the last one is
/// known and before leaves add them to `grad`. Regions of reentrant recompute are passes of their own: tensors within and without
/// never meet there. The result removes it. Error as of Tensor::register_hook, and on no tensors.
/// (torch.autograd.graph.register_multi_grad_hook, mode "all"; where a pass does not reach a tensor, that calls with None, this not.)
std::function<void()> register_multi_grad_hook(const TensorList& tensors,
                                               std::function<void(const TensorList& gradients)> hook);

/// Calls `hook` once in each backward pass that reaches any of `tensors`, with the gradient that is known first, before leaves add
/// it to `grad`. A region of reentrant recompute is a pass of its own, and calls once more where it reaches one of them. The result
/// removes it. Error as of register_multi_grad_hook. (torch.autograd.graph.register_multi_grad_hook, mode "any".)
std::function<void()> register_any_grad_hook(const TensorList& tensors,
                                             std::function<void(const Tensor& gradient)> hook);

}  // namespace reprise::autograd

namespace reprise {
using autograd::grad_fn_name;
using autograd::graph_to_string;
using autograd::register_any_grad_hook;
using autograd::register_multi_grad_hook;
using autograd::register_node_hook;
using autograd::register_node_prehook;
}  // namespace reprise
