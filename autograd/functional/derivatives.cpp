#include "reprise/autograd/functional/derivatives.h"

#include "reprise/autograd/engine.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"

namespace reprise::autograd {
namespace {

// A call of the function: its inputs as they were called with, its outputs.
struct Called {
  TensorList inputs, outputs;
};

void check_vectors(const char* op, const char* what, const TensorList& vectors, const TensorList& of) {
  check(vectors.size() == of.size(), op, ": ", vectors.size(), " vectors for ", of.size(), " ", what);
  for (size_t i = 0; i < of.size(); ++i)
    check(vectors[i].defined() && vectors[i].shape() == of[i].shape(), op, ": vector ", i,
          " must have the shape of its ", what, ", ", of[i].shape(),
          vectors[i].defined() ? reprise::detail::join(", got ", vectors[i].shape()) : ", is undefined");
}

// With `create_graph` the inputs' own graph goes on behind them.
Called call(const char* op, const TensorFunction& fn, const TensorList& inputs, bool create_graph) {
  Called called;
  for (size_t i = 0; i < inputs.size(); ++i) {
    check(inputs[i].defined() && is_floating(inputs[i].dtype()), op, ": input ", i, " needs a floating dtype",
          inputs[i].defined() ? reprise::detail::join(", got ", inputs[i].dtype()) : ", is undefined");
    const bool goes_on = create_graph && inputs[i].requires_grad();
    called.inputs.push_back(goes_on ? inputs[i].reshape(inputs[i].shape()) : inputs[i].detach());
    if (!goes_on) called.inputs.back().set_requires_grad();
  }
  called.outputs = fn(called.inputs);
  for (size_t i = 0; i < called.outputs.size(); ++i)
    check(called.outputs[i].defined() && is_floating(called.outputs[i].dtype()), op, ": output ", i,
          " of the function needs a floating dtype");
  return called;
}

TensorList detached(const TensorList& all, bool create_graph) {
  if (create_graph) return all;
  TensorList constants;
  for (const Tensor& x : all) constants.push_back(x.detach());
  return constants;
}

// d(sum outputs * u) / d inputs, zeros where there is no way. An output that no graph leads to counts nothing.
TensorList product(const TensorList& outputs, const TensorList& inputs, const TensorList& u,
                   bool create_graph) {
  TensorList of, by;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].requires_grad()) of.push_back(outputs[i]), by.push_back(u[i]);
  TensorList gradients(inputs.size());
  if (!of.empty())
    gradients =
        grad(of, inputs, by, {.retain_graph = true, .create_graph = create_graph, .allow_unused = true});
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!gradients[i].defined()) gradients[i] = zeros_like(inputs[i]);
  return gradients;
}

// Rows of the Jacobian, one for each element of the output.
TensorList rows(const Tensor& output, const TensorList& inputs, bool create_graph) {
  std::vector<TensorList> of_elements(inputs.size());
  for (int64_t i = 0; i < output.numel(); ++i) {
    const Tensor flat =
        one_hot(full({}, double(i), DType::i64, output.device()), output.numel(), output.dtype());
    const TensorList row = product({output}, inputs, {flat.reshape(output.shape())}, create_graph);
    for (size_t j = 0; j < inputs.size(); ++j) of_elements[j].push_back(row[j]);
  }
  TensorList result;
  for (size_t j = 0; j < inputs.size(); ++j) {
    Shape shape = output.shape();
    for (int64_t size : inputs[j].shape()) shape.push_back(size);
    result.push_back(output.numel() == 0 ? zeros(shape, inputs[j].dtype(), inputs[j].device())
                                         : reshape(stack(of_elements[j], 0), shape));
  }
  return detached(result, create_graph);
}

Called call_of_one(const char* op, const TensorFunction& fn, const TensorList& inputs, bool create_graph) {
  Called called = call(op, fn, inputs, create_graph);
  check(called.outputs.size() == 1 && called.outputs[0].numel() == 1, op,
        ": the function must give one tensor of one element, gave ", called.outputs.size(),
        " of which the first has ", called.outputs.empty() ? 0 : called.outputs[0].numel());
  return called;
}

TensorFunction lifted(const std::function<Tensor(const Tensor&)>& fn) {
  return [&fn](const TensorList& in) { return TensorList{fn(in[0])}; };
}

}  // namespace

ValueAndProduct vjp(const TensorFunction& fn, const TensorList& inputs, const TensorList& u,
                    bool create_graph) {
  EnableGrad guard;
  const Called called = call("vjp", fn, inputs, create_graph);
  check_vectors("vjp", "outputs", u, called.outputs);
  return {detached(called.outputs, create_graph),
          detached(product(called.outputs, called.inputs, u, create_graph), create_graph)};
}

ValueAndProduct jvp(const TensorFunction& fn, const TensorList& inputs, const TensorList& v,
                    bool create_graph) {
  EnableGrad guard;
  const Called called = call("jvp", fn, inputs, create_graph);
  check_vectors("jvp", "inputs", v, inputs);
  TensorList u;
  for (const Tensor& y : called.outputs) u.push_back(zeros_like(y).set_requires_grad());
  const TensorList from_left = product(called.outputs, called.inputs, u, true);
  return {detached(called.outputs, create_graph),
          detached(product(from_left, u, v, create_graph), create_graph)};
}

std::vector<TensorList> jacobian(const TensorFunction& fn, const TensorList& inputs, bool create_graph) {
  EnableGrad guard;
  const Called called = call("jacobian", fn, inputs, create_graph);
  std::vector<TensorList> result;
  for (const Tensor& y : called.outputs) result.push_back(rows(y, called.inputs, create_graph));
  return result;
}

Tensor jacobian(const std::function<Tensor(const Tensor&)>& fn, const Tensor& x, bool create_graph) {
  return jacobian(lifted(fn), {x}, create_graph)[0][0];
}

std::vector<TensorList> hessian(const TensorFunction& fn, const TensorList& inputs, bool create_graph) {
  EnableGrad guard;
  const Called called = call_of_one("hessian", fn, inputs, create_graph);
  const TensorList gradients = product(called.outputs, called.inputs, {ones_like(called.outputs[0])}, true);
  std::vector<TensorList> result;
  for (const Tensor& gradient : gradients) result.push_back(rows(gradient, called.inputs, create_graph));
  return result;
}

Tensor hessian(const std::function<Tensor(const Tensor&)>& fn, const Tensor& x, bool create_graph) {
  return hessian(lifted(fn), {x}, create_graph)[0][0];
}

ValueAndProduct hvp(const TensorFunction& fn, const TensorList& inputs, const TensorList& v,
                    bool create_graph) {
  EnableGrad guard;
  const Called called = call_of_one("hvp", fn, inputs, create_graph);
  check_vectors("hvp", "inputs", v, inputs);
  const TensorList gradients = product(called.outputs, called.inputs, {ones_like(called.outputs[0])}, true);
  return {detached(called.outputs, create_graph),
          detached(product(gradients, called.inputs, v, create_graph), create_graph)};
}

}  // namespace reprise::autograd
