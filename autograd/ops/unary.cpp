// Elementwise functions of one tensor: one kernel call forward, one backward; and the derivative of each
// written in differentiable operations, for gradients of gradients.
#include <cmath>
#include <numbers>

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/kernels/elementwise.h"

namespace reprise {
namespace {

using kernels::UnaryOp;

Tensor normal_density(const Tensor& x) { return exp(square(x) * -0.5) * std::sqrt(0.5 / std::numbers::pi); }
Tensor normal_cdf(const Tensor& x) { return (erf(x * std::numbers::sqrt2 * 0.5) + 1.0) * 0.5; }

// tanh of the cubic inside gelu_tanh, and the cubic's derivative.
Tensor gelu_tanh_inner(const Tensor& x) {
  return tanh((x + square(x) * x * 0.044715) * std::sqrt(2 / std::numbers::pi));
}
Tensor gelu_tanh_derivative(const Tensor& x) {
  Tensor t = gelu_tanh_inner(x);
  Tensor slope = (square(x) * (3 * 0.044715) + 1.0) * std::sqrt(2 / std::numbers::pi);
  return (t + 1.0) * 0.5 + x * 0.5 * (1.0 - square(t)) * slope;
}

// op'(x) as a graph.
Tensor derivative(UnaryOp op, const Tensor& x) {
  switch (op) {
    case UnaryOp::neg:
      return full(x.shape(), -1, x.dtype(), x.device());
    case UnaryOp::abs:
      return where(less(x, scalar(0, x.dtype(), x.device())), scalar(-1, x.dtype(), x.device()),
                   scalar(1, x.dtype(), x.device()));
    case UnaryOp::square:
      return x * 2.0;
    case UnaryOp::reciprocal:
      return -square(reciprocal(x));
    case UnaryOp::sqrt:
      return rsqrt(x) * 0.5;
    case UnaryOp::rsqrt:
      return rsqrt(x) * reciprocal(x) * -0.5;
    case UnaryOp::exp:
      return exp(x);
    case UnaryOp::log:
      return reciprocal(x);
    case UnaryOp::sin:
      return cos(x);
    case UnaryOp::cos:
      return -sin(x);
    case UnaryOp::tanh:
      return 1.0 - square(tanh(x));
    case UnaryOp::sigmoid:
      return sigmoid(x) * (1.0 - sigmoid(x));
    case UnaryOp::erf:
      return exp(-square(x)) * (2 / std::sqrt(std::numbers::pi));
    case UnaryOp::relu:
      return cast(greater(x, scalar(0, x.dtype(), x.device())), x.dtype());
    case UnaryOp::gelu:
      return normal_cdf(x) + x * normal_density(x);
    case UnaryOp::gelu_tanh:
      return gelu_tanh_derivative(x);
    case UnaryOp::silu:
      return sigmoid(x) * (1.0 + x * (1.0 - sigmoid(x)));
    default:
      break;
  }
  throw Bug("unary: op has no derivative");
}

template <UnaryOp op>
constexpr const char* unary_name() {
  constexpr const char* names[] = {"neg",     "abs", "sign", "square", "reciprocal", "sqrt",
                                   "rsqrt",   "exp", "log",  "sin",    "cos",        "tanh",
                                   "sigmoid", "erf", "relu", "gelu",   "gelu_tanh",  "silu"};
  return names[size_t(op)];
}

template <UnaryOp op>
struct Unary : autograd::Function<Unary<op>> {
  static constexpr const char* name = unary_name<op>();

  Tensor forward(const Tensor& x) {
    this->save(x);
    Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
    kernels::unary(current_stream(x.device()), op, x, y);
    return y;
  }

  TensorList backward(const TensorList& dy) {
    Tensor x = this->saved(0);
    if (autograd::grad_mode_enabled()) return {dy[0] * derivative(op, x)};
    Tensor dx = Tensor::empty(x.shape(), x.dtype(), x.device());
    kernels::unary_backward(current_stream(x.device()), op, dy[0], x, dx);
    return {dx};
  }
};

}  // namespace

Tensor operator-(const Tensor& x) { return Unary<UnaryOp::neg>::apply(x); }
Tensor exp(const Tensor& x) { return Unary<UnaryOp::exp>::apply(x); }
Tensor log(const Tensor& x) { return Unary<UnaryOp::log>::apply(x); }
Tensor sqrt(const Tensor& x) { return Unary<UnaryOp::sqrt>::apply(x); }
Tensor rsqrt(const Tensor& x) { return Unary<UnaryOp::rsqrt>::apply(x); }
Tensor square(const Tensor& x) { return Unary<UnaryOp::square>::apply(x); }
Tensor reciprocal(const Tensor& x) { return Unary<UnaryOp::reciprocal>::apply(x); }
Tensor abs(const Tensor& x) { return Unary<UnaryOp::abs>::apply(x); }
Tensor sin(const Tensor& x) { return Unary<UnaryOp::sin>::apply(x); }
Tensor cos(const Tensor& x) { return Unary<UnaryOp::cos>::apply(x); }
Tensor tanh(const Tensor& x) { return Unary<UnaryOp::tanh>::apply(x); }
Tensor sigmoid(const Tensor& x) { return Unary<UnaryOp::sigmoid>::apply(x); }
Tensor erf(const Tensor& x) { return Unary<UnaryOp::erf>::apply(x); }
Tensor relu(const Tensor& x) { return Unary<UnaryOp::relu>::apply(x); }
Tensor gelu(const Tensor& x) { return Unary<UnaryOp::gelu>::apply(x); }
Tensor gelu_tanh(const Tensor& x) { return Unary<UnaryOp::gelu_tanh>::apply(x); }
Tensor silu(const Tensor& x) { return Unary<UnaryOp::silu>::apply(x); }

Tensor activate(const Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return relu(x);
    case Activation::gelu:
      return gelu(x);
    case Activation::gelu_tanh:
      return gelu_tanh(x);
    case Activation::silu:
      return silu(x);
  }
  throw Bug("activate: unknown activation");
}

Tensor composite::activate(const Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return maximum(x, scalar(0, x.dtype(), x.device()));
    case Activation::gelu:
      return x * normal_cdf(x);
    case Activation::gelu_tanh:
      return x * (gelu_tanh_inner(x) + 1.0) * 0.5;
    case Activation::silu:
      return x / (exp(-x) + 1.0);
  }
  throw Bug("activate: unknown activation");
}

}  // namespace reprise
