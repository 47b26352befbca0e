// The backward pass: count dependencies, then run ready nodes, newest first.
#include "reprise/autograd/engine.h"

#include <atomic>
#include <iostream>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/graph_task.h"
#include "reprise/autograd/ops.h"

namespace reprise::autograd {
namespace {

thread_local int passes_around = 0;

Tensor root_gradient(const Tensor& output, const TensorList& grads, size_t i, bool create_graph,
                     const char* op) {
  bool given = i < grads.size() && grads[i].defined();
  if (!given) {
    check(output.numel() == 1, op, ": output ", i, " has shape ", output.shape(),
          "; only a one-element output needs no gradient of its own");
    Tensor one = Tensor::empty(output.shape(), output.dtype(), output.device());
    one.fill_(1);
    return one;
  }
  check(grads[i].shape() == output.shape() && grads[i].dtype() == output.dtype(), op, ": gradient ", i,
        " is ", grads[i].dtype(), grads[i].shape(), ", its output is ", output.dtype(), output.shape());
  check(grads[i].device() == output.device(), op, ": gradient ", i, " is on ", grads[i].device(),
        ", its output on ", output.device());
  return create_graph ? grads[i] : grads[i].detach();
}

// grad -> graph -> leaf -> grad: the gradients hold the graph that made them, and so on to the leaves.
void warn_of_cycles() {
  static std::atomic<bool> warned{false};
  if (warned.exchange(true)) return;
  std::cerr
      << "backward: warning: with create_graph, each leaf's grad holds the graph, which holds the leaf; "
         "drop the grads with set_grad({}) or zero_grad(), or use grad(), or the memory is never freed\n";
}

struct DepthScope {
  DepthScope() { ++passes_around; }
  ~DepthScope() { --passes_around; }
};

void seed(GraphTask& task, const TensorList& outputs, const TensorList& output_grads, bool create_graph,
          const char* op) {
  check(output_grads.empty() || output_grads.size() == outputs.size(), op, ": ", output_grads.size(),
        " gradients for ", outputs.size(), " outputs");
  for (size_t i = 0; i < outputs.size(); ++i) {
    check(outputs[i].defined(), op, ": output ", i, " is undefined");
    Edge edge = gradient_edge(outputs[i]);
    check(bool(edge), op, ": output ", i, " of shape ", outputs[i].shape(),
          " is not part of a graph: nothing it was made from requires grad, or it was made under NoGrad or "
          "detached");
    const DType wanted = edge.node->outputs()[size_t(edge.input)].dtype;  // of a leaf, its grad_dtype
    task.add_root(edge, cast(root_gradient(outputs[i], output_grads, i, create_graph, op), wanted));
  }
}

}  // namespace

int backward_depth() { return passes_around; }
bool in_backward() { return passes_around > 0; }

void backward(const TensorList& outputs, const TensorList& output_grads, const BackwardOptions& options) {
  if (options.create_graph) warn_of_cycles();
  DepthScope depth;
  GradMode mode(options.create_graph);
  GraphTask task(options.retain_graph.value_or(options.create_graph));
  seed(task, outputs, output_grads, options.create_graph, "backward");
  for (const Tensor& input : options.inputs) {
    check(input.defined(), "backward: one of the inputs is undefined");
    check(input.is_leaf() && input.requires_grad(),
          "backward: inputs must be leaves that require grad, got shape ", input.shape());
    task.restrict_to(gradient_edge(input).node);
  }
  task.run();
}

TensorList grad(const TensorList& outputs, const TensorList& inputs, const TensorList& output_grads,
                const GradOptions& options) {
  check(!inputs.empty(), "grad: no inputs given: there is nothing to differentiate in");
  DepthScope depth;
  GradMode mode(options.create_graph);
  GraphTask task(options.retain_graph.value_or(options.create_graph));
  for (size_t i = 0; i < inputs.size(); ++i) {
    check(inputs[i].defined(), "grad: input ", i, " is undefined");
    Edge edge = gradient_edge(inputs[i]);
    check(bool(edge), "grad: input ", i, " of shape ", inputs[i].shape(), " does not require grad");
    task.capture(edge);
  }
  seed(task, outputs, output_grads, options.create_graph, "grad");
  task.run();
  TensorList grads = task.take_captured();
  for (size_t i = 0; i < grads.size(); ++i) {
    check(options.allow_unused || grads[i].defined(), "grad: the outputs do not depend on input ", i,
          " of shape ", inputs[i].shape(), "; pass allow_unused = true if that is meant");
  }
  return grads;
}

}  // namespace reprise::autograd
