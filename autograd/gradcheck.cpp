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

using Layout = Tensor (*)(const Tensor& x);

// A copy of x with a NaN after each element: what reads it as if it were contiguous shows.
Tensor with_gaps(const Tensor& x) {
  Shape wide = x.rank() == 0 ? Shape{1} : x.shape();
  wide[wide.size() - 1] *= 2;
  return full(wide, std::nan(""), x.dtype(), x.device())
      .slice(-1, 0, wide[wide.size() - 1], 2)
      .reshape(x.shape())
      .copy_(x);
}

// A copy whose first dimension is the densest in memory.
Tensor transposed(const Tensor& x) {
  Dims order, reversed;
  for (int d = x.rank() - 1; d >= 0; --d) order.push_back(d), reversed.push_back(x.shape()[d]);
  return Tensor::empty(reversed, x.dtype(), x.device()).permute(order).copy_(x);
}

// A copy between two NaNs of one storage.
Tensor with_offset(const Tensor& x) {
  return full({x.numel() + 2}, std::nan(""), x.dtype(), x.device())
      .slice(0, 1, x.numel() + 1)
      .reshape(x.shape())
      .copy_(x);
}

// What fn gives for some layout of its inputs.
struct Run {
  TensorList outputs, gradients;
};

Run run(const TensorFunction& fn, const TensorList& inputs, const TensorList& weights) {
  TensorList wanted;
  for (const Tensor& x : inputs)
    if (x.defined() && x.requires_grad()) wanted.push_back(x);
  Run made{.outputs = differentiable_outputs(fn, inputs), .gradients = {}};
  check(made.outputs.size() == weights.size(), "gradcheck: fn gave ", weights.size(),
        " outputs that require grad, called again ", made.outputs.size());
  made.gradients = grad(made.outputs, wanted, weights, {.allow_unused = true});
  return made;
}

void compare(const TensorList& got, const TensorList& want, double tolerance, const char* what,
             const char* which) {
  for (size_t k = 0; k < want.size(); ++k) {
    auto values_of = [&](const Tensor& x) {
      size_t count = size_t((x.defined() ? x : got[k].defined() ? got[k] : want[k]).numel());
      return x.defined() ? x.to_vector<double>() : std::vector<double>(count, 0.0);
    };
    if (!got[k].defined() && !want[k].defined()) continue;
    std::vector<double> a = values_of(got[k]), b = values_of(want[k]);
    check(a.size() == b.size(), "gradcheck: ", what, ' ', k, ' ', which, " has ", a.size(),
          " elements instead of ", b.size());
    for (size_t at = 0; at < a.size(); ++at) {
      bool same = a[at] == b[at] || (std::isnan(a[at]) && std::isnan(b[at])) ||
                  std::fabs(a[at] - b[at]) <= tolerance * std::max(1.0, std::fabs(b[at]));
      check(same, "gradcheck: ", what, ' ', k, ", element ", at, ", is ", a[at], ' ', which, ", before ",
            b[at]);
    }
  }
}

void check_repetition(const TensorFunction& fn, const TensorList& leaves, const TensorList& weights,
                      double tolerance) {
  if (tolerance < 0) return;
  Run first = run(fn, leaves, weights), second = run(fn, leaves, weights);
  constexpr auto which = "when fn runs again on the same inputs";
  compare(second.outputs, first.outputs, tolerance, "output", which);
  compare(second.gradients, first.gradients, tolerance, "gradient", which);
}

void check_layout(const TensorFunction& fn, const TensorList& leaves, const TensorList& weights,
                  const Run& plain, double tolerance, Layout in_layout, const char* which) {
  TensorList inputs = leaves, laid_out;
  {
    NoGrad guard;
    for (Tensor& x : inputs)
      if (x.defined() && x.requires_grad()) x = in_layout(x).set_requires_grad();
    for (const Tensor& weight : weights) laid_out.push_back(in_layout(weight));
  }
  Run run_so = run(fn, inputs, laid_out);
  compare(run_so.outputs, plain.outputs, tolerance, "output", which);
  compare(run_so.gradients, plain.gradients, tolerance, "gradient", which);
}

void check_layouts(const TensorFunction& fn, const TensorList& leaves, const TensorList& weights,
                   double tolerance) {
  const Run plain = run(fn, leaves, weights);
  auto check_one = [&](Layout layout, const char* which) {
    check_layout(fn, leaves, weights, plain, tolerance, layout, which);
  };
  check_one(with_gaps, "for inputs that are not contiguous");
  check_one(transposed, "for inputs that are transposed");
  check_one(with_offset, "for inputs that begin within their storage");
  TensorList ones, expanded;
  for (const Tensor& weight : weights) {
    ones.push_back(full(weight.shape(), 1, weight.dtype(), weight.device()));
    expanded.push_back(full({}, 1, weight.dtype(), weight.device()).expand(weight.shape()));
  }
  compare(run(fn, leaves, expanded).gradients, run(fn, leaves, ones).gradients, tolerance, "gradient",
          "for output gradients that are expanded");
}

// A gradient that is not there counts as zeros, whichever output it is of.
void check_undefined(const TensorFunction& fn, const TensorList& leaves, const TensorList& weights,
                     double tolerance) {
  TensorList wanted;
  for (const Tensor& x : leaves)
    if (x.defined() && x.requires_grad()) wanted.push_back(x);
  for (size_t left_out = 0; weights.size() > 1 && left_out < weights.size(); ++left_out) {
    TensorList outputs = differentiable_outputs(fn, leaves), others = weights, zeroed = weights;
    zeroed[left_out] =
        zeros(weights[left_out].shape(), weights[left_out].dtype(), weights[left_out].device());
    const Run want = run(fn, leaves, zeroed);
    outputs.erase(outputs.begin() + std::ptrdiff_t(left_out));
    others.erase(others.begin() + std::ptrdiff_t(left_out));
    const std::string which = reprise::detail::join("without a gradient of output ", left_out);
    compare(grad(outputs, wanted, others, {.allow_unused = true}), want.gradients, tolerance, "gradient",
            which.c_str());
  }
}

void check_numerically(const TensorFunction& fn, const TensorList& leaves, const TensorList& weights,
                       const GradcheckOptions& options) {
  TensorList grads = run(fn, leaves, weights).gradients;
  size_t k = 0;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i].defined() || !leaves[i].requires_grad()) continue;
    size_t count = size_t(leaves[i].numel());
    std::vector<double> analytic =
        grads[k].defined() ? grads[k].to_vector<double>() : std::vector<double>(count, 0.0);
    ++k;
    for (size_t at = 0; at < count; ++at) {
      double numeric = numeric_gradient(fn, leaves, i, at, weights, options.step);
      bool close = std::fabs(analytic[at] - numeric) <= options.tolerance * std::max(1.0, std::fabs(numeric));
      check(close, "gradcheck: input ", i, " of shape ", leaves[i].shape(), ", element ", at,
            ": analytic gradient ", analytic[at], ", numeric ", numeric);
    }
  }
}

}  // namespace

bool gradcheck(const TensorFunction& fn, const TensorList& inputs, const GradcheckOptions& options) {
  EnableGrad guard;
  TensorList leaves = fresh_leaves(inputs, "gradcheck");
  TensorList weights = random_gradients(differentiable_outputs(fn, leaves), options.seed);
  check(!weights.empty(), "gradcheck: no output depends on an input that requires grad");
  check_repetition(fn, leaves, weights, options.nondeterminism);
  check_numerically(fn, leaves, weights, options);
  if (options.strided) check_layouts(fn, leaves, weights, options.tolerance);
  if (options.undefined) check_undefined(fn, leaves, weights, options.tolerance);
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
