// Central differences of sum(outputs * output_grads) against what backward gives.
#include "reprise/autograd/gradcheck.h"

#include <cmath>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"

namespace reprise::autograd {
namespace {

// Copies of the inputs that require grad, as leaves; the others as they are.
TensorList fresh_leaves(const TensorList& inputs, const char* op) {
  NoGrad guard;
  TensorList leaves = inputs;
  bool any = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || !inputs[i].requires_grad()) continue;
    check(inputs[i].dtype() == DType::f64, op, ": input ", i, " is ", inputs[i].dtype(),
          "; central differences need f64");
    leaves[i] = inputs[i].clone();
    leaves[i].set_requires_grad();
    any = true;
  }
  check(any, op, ": no input requires grad");
  return leaves;
}

TensorList differentiable_outputs(const TensorFunction& fn, const TensorList& inputs) {
  TensorList outputs;
  for (const Tensor& y : fn(inputs))
    if (y.defined() && y.requires_grad()) outputs.push_back(y);
  return outputs;
}

TensorList random_gradients(const TensorList& outputs, uint64_t seed) {
  Generator generator(seed);
  TensorList grads;
  for (const Tensor& y : outputs) grads.push_back(randn(y.shape(), y.dtype(), y.device(), &generator));
  return grads;
}

double weighted_sum(const TensorList& outputs, const TensorList& weights) {
  double total = 0;
  for (size_t k = 0; k < outputs.size(); ++k) {
    std::vector<double> y = outputs[k].to_vector<double>(), w = weights[k].to_vector<double>();
    for (size_t i = 0; i < y.size(); ++i) total += y[i] * w[i];
  }
  return total;
}

// d(weighted sum)/d(element `at` of input `i`), by a step to either side.
double numeric_gradient(const TensorFunction& fn, TensorList inputs, size_t i, size_t at,
                        const TensorList& weights, double step) {
  const std::vector<double> values = inputs[i].to_vector<double>();
  const Shape shape = inputs[i].shape();
  const Device device = inputs[i].device();
  double h = step * std::max(1.0, std::fabs(values[at]));
  auto value_at = [&](double x) {
    std::vector<double> moved = values;
    moved[at] = x;
    inputs[i] = Tensor::from(moved, shape, device).set_requires_grad();
    return weighted_sum(differentiable_outputs(fn, inputs), weights);
  };
  double above = values[at] + h, below = values[at] - h;
  return (value_at(above) - value_at(below)) / (above - below);
}

// A backward written twice, plain and differentiable, must give one gradient: differences of the second alone
// would not tell.
void compare_recorded_with_plain(const TensorFunction& fn, const TensorList& inputs,
                                 const TensorList& weights, double tolerance) {
  TensorList wanted;
  for (const Tensor& x : inputs)
    if (x.defined() && x.requires_grad()) wanted.push_back(x);
  TensorList outputs = differentiable_outputs(fn, inputs);
  TensorList recorded = grad(outputs, wanted, weights, {.create_graph = true, .allow_unused = true});
  TensorList plain = grad(outputs, wanted, weights, {.allow_unused = true});
  for (size_t k = 0; k < wanted.size(); ++k) {
    std::vector<double> zero(size_t(wanted[k].numel()), 0.0);
    std::vector<double> a = recorded[k].defined() ? recorded[k].to_vector<double>() : zero;
    std::vector<double> b = plain[k].defined() ? plain[k].to_vector<double>() : zero;
    for (size_t at = 0; at < a.size(); ++at)
      check(std::fabs(a[at] - b[at]) <= tolerance * std::max(1.0, std::fabs(b[at])), "gradgradcheck: input ",
            k, " of those that require grad, shape ", wanted[k].shape(), ", element ", at,
            ": gradient under create_graph ", a[at], ", without ", b[at]);
  }
}

}  // namespace

bool gradcheck(const TensorFunction& fn, const TensorList& inputs, const GradcheckOptions& options) {
  EnableGrad guard;
  TensorList leaves = fresh_leaves(inputs, "gradcheck"), wanted;
  std::vector<size_t> places;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i].defined() || !leaves[i].requires_grad()) continue;
    wanted.push_back(leaves[i]);
    places.push_back(i);
  }
  TensorList outputs = differentiable_outputs(fn, leaves);
  check(!outputs.empty(), "gradcheck: no output depends on an input that requires grad");
  TensorList weights = random_gradients(outputs, options.seed);
  TensorList grads = grad(outputs, wanted, weights, {.allow_unused = true});
  outputs.clear();
  for (size_t k = 0; k < wanted.size(); ++k) {
    size_t count = size_t(wanted[k].numel());
    std::vector<double> analytic =
        grads[k].defined() ? grads[k].to_vector<double>() : std::vector<double>(count, 0.0);
    for (size_t at = 0; at < count; ++at) {
      double numeric = numeric_gradient(fn, leaves, places[k], at, weights, options.step);
      bool close = std::fabs(analytic[at] - numeric) <= options.tolerance * std::max(1.0, std::fabs(numeric));
      check(close, "gradcheck: input ", places[k], " of shape ", wanted[k].shape(), ", element ", at,
            ": analytic gradient ", analytic[at], ", numeric ", numeric);
    }
  }
  return true;
}

bool gradgradcheck(const TensorFunction& fn, const TensorList& inputs, const GradcheckOptions& options) {
  EnableGrad guard;
  TensorList all = fresh_leaves(inputs, "gradgradcheck");
  size_t input_count = all.size();
  TensorList outputs = differentiable_outputs(fn, all);
  check(!outputs.empty(), "gradgradcheck: no output depends on an input that requires grad");
  TensorList weights = random_gradients(outputs, options.seed + 1);
  outputs.clear();
  compare_recorded_with_plain(fn, all, weights, options.tolerance);
  for (const Tensor& weight : weights) all.push_back(weight.set_requires_grad());
  auto gradient = [&](const TensorList& in) {
    TensorList x(in.begin(), in.begin() + std::ptrdiff_t(input_count)), wanted;
    TensorList dy(in.begin() + std::ptrdiff_t(input_count), in.end());
    for (const Tensor& leaf : x)
      if (leaf.defined() && leaf.requires_grad()) wanted.push_back(leaf);
    return grad(differentiable_outputs(fn, x), wanted, dy, {.create_graph = true, .allow_unused = true});
  };
  return gradcheck(gradient, all, options);
}

}  // namespace reprise::autograd
