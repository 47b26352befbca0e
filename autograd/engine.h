// The engine: runs the graph backward. Iterative: the depth of the graph costs no stack.
#pragma once

#include "reprise/autograd/meta.h"

namespace reprise::autograd {

/// Options of `backward`.
struct BackwardOptions {
  std::optional<bool>
      retain_graph{};  ///< keep what was saved for another pass; default: the value of create_graph
  /// Record the backward pass, so that gradients can be differentiated again. The `grad` of a leaf then holds
  /// the graph, which holds the leaf: drop it with `set_grad({})`, or use `grad`, which leaves no such cycle.
  bool create_graph = false;
  TensorList inputs{};  ///< accumulate into these leaves only; empty: into all
};

/// Adds d(sum outputs * output_grads)/d(leaf) to the `grad` of every leaf. An undefined or absent output
/// gradient stands for 1 and needs a one-element output. Error if an output is not part of a graph.
void backward(const TensorList& outputs, const TensorList& output_grads = {},
              const BackwardOptions& options = {});

/// Options of `grad`.
struct GradOptions {
  /// Keep what was saved for another pass; default: the value of create_graph.
  std::optional<bool> retain_graph{};
  bool create_graph = false;  ///< record the backward pass, so that the gradients can be differentiated again
  bool allow_unused =
      false;  ///< an input that outputs do not depend on gives an undefined tensor, not an Error
};

/// The gradients of `inputs`; no `grad` is touched.
TensorList grad(const TensorList& outputs, const TensorList& inputs, const TensorList& output_grads = {},
                const GradOptions& options = {});

/// How many backward passes this thread is inside of.
int backward_depth();
/// Whether this thread is inside a backward pass.
bool in_backward();

}  // namespace reprise::autograd

namespace reprise {
using autograd::backward;
using autograd::grad;
}  // namespace reprise
