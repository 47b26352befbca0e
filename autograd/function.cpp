// Recording: what Function does before and after the operation's own forward.
#include "reprise/autograd/function.h"

#include <set>
#include <typeinfo>
#include <utility>

#include "reprise/autograd/accumulate_grad.h"
#include "reprise/autograd/anomaly.h"
#include "reprise/autograd/graph_task.h"
#include "reprise/autograd/op_observer.h"
#include "reprise/autograd/ops/wide.h"

namespace reprise::autograd {

void FunctionNode::throw_undefined(const char* op_name, const UndefinedTensor& error,
                                   const TensorList& inputs) {
  TextStream which;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].defined())
      which << (which.tellp() > 0 ? ", " : "; undefined among its tensor arguments: ") << i;
  fail(op_name, ": ", error.what(), which.str());
}

void FunctionNode::advise_policy(const Error& error, const TensorList& inputs) {
  std::set<DType> dtypes;
  for (const Tensor& x : inputs)
    if (x.defined() && is_floating(x.dtype())) dtypes.insert(x.dtype());
  if (dtypes.size() < 2 || typeid(error) != typeid(Error)) return;
  fail(error.what(),
       "; the operation declares no `autocast`, so that it is given mixed dtypes as they are: "
       "declare a policy (docs/mixed_precision.md)");
}

void FunctionNode::begin(const TensorList& inputs, bool under_autocast) {
  under_autocast_ = under_autocast;
  results_wanted_ = !OpInterceptor::all_want_no_results();
  if (!grad_mode_enabled()) return;
  edges_.reserve(inputs.size());
  for (const Tensor& x : inputs) {
    edges_.push_back(gradient_edge(x));
    recording_ |= bool(edges_.back());
  }
}

void FunctionNode::check_outputs(const TensorList& outputs, const TensorList& inputs, const char* op_name) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& y = outputs[i];
    if (!y.defined()) continue;
    for (const Tensor& x : inputs)
      check(!y.is_same(x), op_name, ": forward returned one of its inputs; return x.alias(x.view())");
    for (size_t other = 0; other < i; ++other)
      check(!y.is_same(outputs[other]), op_name, ": forward returned one tensor as outputs ", other, " and ",
            i, "; return y.alias(y.view()) as one of them");
    check(!y.requires_grad(), op_name, ": forward returned a tensor that is in a graph already as output ", i,
          "; give it to apply() as an argument, or return x.alias(x.view())");
  }
}

void FunctionNode::finish(const TensorList& outputs, const TensorList& inputs, const CastSeam* seam,
                          const char* op_name) {
  check_outputs(outputs, inputs, op_name);
  for (const Tensor& y : outputs)
    if (y.defined()) y.show();
  OpObserver::notify(op_name, inputs, outputs);
  if (!recording_) return;
  // The scope whose end lets shadows go may be over when backward asks.
  if (seam && seam->shadows() == amp::Shadows::step) kept_shadows_ = amp::Shadows::step;
  if (anomaly_mode_enabled()) describe(inputs, op_name);
  for (int i = 0; i < int(outputs.size()); ++i) {
    const Tensor& y = outputs[size_t(i)];
    if (!y.defined()) {
      outputs_.push_back({.shape = {}, .dtype = DType::f32, .device = {}, .absent = true});
      continue;
    }
    outputs_.push_back({y.shape(), y.dtype(), y.device()});
    if (is_floating(y.dtype())) set_grad_fn(y, shared_from_this(), i);
  }
  TensorList to_save = std::exchange(to_save_, {});  // a pack hook may throw: an output must not stay here
  saved_.reserve(to_save.size());
  for (Tensor& x : to_save) {
    // Of a shadow the weight is kept, which is there anyway, and whose version says whether it was changed since.
    if (Tensor weight = seam ? seam->weight_of(x) : Tensor(); weight.defined()) {
      shadows_.resize(to_save.size());
      shadows_[saved_.size()] = x.dtype();
      x = weight;
    }
    bool is_output = false;
    for (const Tensor& y : outputs) is_output |= x.defined() && x.is_same(y);
    saved_.emplace_back(x, is_output, op_name);
  }
}

void FunctionNode::describe(const TensorList& inputs, const char* op_name) {
  TextStream text;
  text << op_name << '(';
  const char* separator = "";
  for (const Tensor& x : inputs) {
    text << separator;
    x.defined() ? text << x.dtype() << x.shape() : text << "none";
    separator = ", ";
  }
  text << ')';
  origin_ = text.str() + anomaly_location();
}

MemoryScope FunctionNode::gradient_memory(int i) const {
  bool is_leaf = needs_grad(i) && dynamic_cast<AccumulateGrad*>(edges_[size_t(i)].node.get());
  return MemoryScope(is_leaf ? MemoryCategory::gradients : current_memory_category());
}

Tensor FunctionNode::saved(int i) const {
  check(!released_, op_name(),
        ": backward a second time through a graph whose saved tensors are gone; pass retain_graph = true to "
        "the first");
  check(size_t(i) < saved_.size(), op_name(), ": backward asked for saved(", i, "), forward saved ",
        saved_.size(), " tensors");
  Tensor x = saved_[size_t(i)].unpack(std::const_pointer_cast<FunctionNode>(shared_from_this()), op_name());
  const std::optional<DType> shadow = size_t(i) < shadows_.size() ? shadows_[size_t(i)] : std::nullopt;
  if (!shadow) return x;
  return grad_mode_enabled() ? cast(x, *shadow) : shadow_of(x, *shadow, kept_shadows_);
}

Tensor FunctionNode::take_saved(int i) {
  Tensor x = saved(i);
  const GraphTask* pass = GraphTask::running();
  if (pass && !pass->retains_graph()) saved_[size_t(i)] = {};
  return x;
}

DType FunctionNode::gradient_dtype(int i, DType otherwise) const {
  if (!needs_grad(i)) return otherwise;
  const Edge& edge = edges_[size_t(i)];
  return edge.node->outputs()[size_t(edge.input)].dtype;
}

void FunctionNode::cast_gradients(TensorList& grads) const {
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!edges_[i] || !grads[i].defined()) continue;
    const DType wanted = gradient_dtype(int(i), grads[i].dtype());
    if (grads[i].dtype() == wanted) continue;
    // Elsewhere a backward that gives another dtype is wrong, which the pass says.
    auto* leaf = dynamic_cast<AccumulateGrad*>(edges_[i].node.get());
    const bool is_cast = under_autocast_ || forward_autocast_.any;  // by autocast, or within the operation
    if (!is_cast && !(leaf && leaf->leaf().grad_dtype == wanted)) continue;
    MemoryScope memory = gradient_memory(int(i));
    grads[i] = converted(grads[i], wanted);
  }
}

void FunctionNode::release() {
  if (!saved_.empty()) released_ = true;
  saved_.clear();
}

void FunctionNode::check_gradient_count(const char* op_name, size_t got, size_t expected) {
  check(got == expected, op_name, ": backward returned ", got, " gradients for ", expected,
        " tensor arguments");
}

TensorList composite_backward(const std::function<TensorList(const TensorList&)>& composite,
                              const TensorList& inputs, const TensorList& output_grads) {
  EnableGrad guard;
  GraphTask task(/*retain_graph=*/true);
  task.end_at_captures();  // what is above the inputs may be deep, and is no business of this pass
  TensorList own = inputs, grads(inputs.size());
  std::vector<size_t> places;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || !inputs[i].requires_grad()) continue;
    own[i] =
        reshape(inputs[i], inputs[i].shape());  // a node of its own: the hooks of the input wait their turn
    task.capture(gradient_edge(own[i]));
    places.push_back(i);
  }
  if (places.empty()) return grads;
  TensorList outputs = composite(own);
  check(outputs.size() == output_grads.size(), "composite_backward: the composite has ", outputs.size(),
        " outputs for ", output_grads.size(), " gradients");
  for (size_t i = 0; i < outputs.size(); ++i) {
    check(outputs[i].shape() == output_grads[i].shape(), "composite_backward: the composite's output ", i,
          " has shape ", outputs[i].shape(), ", its gradient ", output_grads[i].shape());
    if (Edge edge = gradient_edge(outputs[i])) task.add_root(edge, output_grads[i]);
  }
  task.run();
  TensorList found = task.take_captured();
  for (size_t i = 0; i < places.size(); ++i) grads[places[i]] = found[i];
  return grads;
}

}  // namespace reprise::autograd
