// Elementwise functions of one tensor: one kernel call forward, one backward; and the derivative of each
// written in differentiable operations, for gradients of gradients.
#include <cmath>
#include <limits>
#include <numbers>

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/autograd/ops/elementwise/pointwise.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/read_half.h"
#include "reprise/autograd/ops/wide.h"
#include "reprise/kernels/elementwise/elementwise_table.h"

namespace reprise {
namespace {

using kernels::UnaryOp;

Tensor normal_density(const Tensor& x) { return exp(square(x) * -0.5) * std::sqrt(0.5 / std::numbers::pi); }
Tensor normal_cdf(const Tensor& x) { return (erf(x * std::numbers::sqrt2 * 0.5) + 1.0) * 0.5; }

// tanh of the cubic inside gelu_tanh. Beyond 10 it is 1 in every dtype, and a cube may be infinite.
Tensor gelu_tanh_inner(const Tensor& x) {
  auto limit = [&](double value) { return scalar(value, x.dtype(), x.device()); };
  Tensor near = minimum(maximum(x, limit(-10)), limit(10));
  return tanh((near + square(near) * near * 0.044715) * std::sqrt(2 / std::numbers::pi));
}
Tensor gelu_tanh_derivative(const Tensor& x) {
  Tensor t = gelu_tanh_inner(x);
  Tensor slope = x * (1.0 - square(t));  // 0 far out, and so all that it is multiplied by
  return (t + 1.0) * 0.5 + (slope + slope * x * x * (3 * 0.044715)) * (0.5 * std::sqrt(2 / std::numbers::pi));
}

// The gradient of |x| by dy = 1.
Tensor sign_of(const Tensor& x) {
  Tensor y = autograd::raw_empty_like(x), one = scalar(1, x.dtype(), x.device());
  kernels::unary_backward(current_stream(x.device()), UnaryOp::abs, expand(one.view(), x.shape()), x, y);
  return y;
}

// dy op'(x) as a graph, by the formulas of the kernels: Note [Gradients at extreme values] in
// kernels/elementwise/formulas.h. 1 - tanh^2 is made of sigmoids, which do not cancel and have no
// kink.
Tensor gradient(UnaryOp op, const Tensor& dy, const Tensor& x) {
  switch (op) {
    case UnaryOp::neg:
      return -dy;
    case UnaryOp::abs:
      return dy * sign_of(x);
    case UnaryOp::square:
      return dy * x * 2.0;
    case UnaryOp::reciprocal:
      return -(dy / x) / x;
    case UnaryOp::sqrt:
      return dy / (sqrt(x) * 2.0);
    case UnaryOp::rsqrt:
      return -(dy / abs(x)) / (sqrt(x) * 2.0);
    case UnaryOp::exp:
      return dy * exp(x);
    case UnaryOp::log:
      return dy / x;
    case UnaryOp::sin:
      return dy * cos(x);
    case UnaryOp::cos:
      return -dy * sin(x);
    case UnaryOp::tanh:
      return dy * (sigmoid(x * 2.0) * sigmoid(x * -2.0) * 4.0);
    case UnaryOp::sigmoid:
      return dy * (sigmoid(x) * sigmoid(-x));
    case UnaryOp::erf:
      return dy * (exp(-square(x)) * (2 / std::sqrt(std::numbers::pi)));
    case UnaryOp::relu:
      return where(less_equal(x, scalar(0, x.dtype(), x.device())), scalar(0, x.dtype(), x.device()), dy);
    case UnaryOp::gelu:
      return dy * (normal_cdf(x) + x * normal_density(x));
    case UnaryOp::gelu_tanh:
      return dy * gelu_tanh_derivative(x);
    case UnaryOp::silu:
      return dy * (sigmoid(x) * (1.0 + x * sigmoid(-x)));
    case UnaryOp::huber:
      return dy * clamp(x, -1, 1);
    case UnaryOp::floor:
    case UnaryOp::ceil:
    case UnaryOp::round:
    case UnaryOp::trunc:
    case UnaryOp::sign:
      return zeros_like(x);
    case UnaryOp::log1p:
      return dy / (1.0 + x);
    case UnaryOp::expm1:
      return dy * exp(x);
    case UnaryOp::softplus:
      return dy * sigmoid(x);
    default:
      break;
  }
  throw Bug("unary: op has no derivative");
}

constexpr bool needs_range(UnaryOp op) {
  return op == UnaryOp::exp || op == UnaryOp::log || op == UnaryOp::rsqrt || op == UnaryOp::reciprocal ||
         op == UnaryOp::square || op == UnaryOp::log1p || op == UnaryOp::expm1 || op == UnaryOp::softplus;
}

template <UnaryOp op>
struct Unary : autograd::Function<Unary<op>> {
  static constexpr const char* name = kernels::name_of(op);
  static constexpr auto autocast = needs_range(op) ? amp::Policy::f32 : amp::Policy::inputs;
  static constexpr uint32_t autocast_keeps = 0b1;  // x: the kernel reads 16 bits and computes in f32
  static constexpr autograd::OpCost cost = autograd::OpCost::pointwise();

  Tensor forward(const Tensor& x) {
    this->save(x);
    Tensor y = Tensor::empty(x.shape(), widens(x) ? DType::f32 : x.dtype(), x.device());
    kernels::unary(current_stream(x.device()), op, x, y);
    return y;
  }

  TensorList backward(const TensorList& dy) {
    Tensor x = this->saved(0);
    if (autograd::grad_mode_enabled()) {
      auto wide = [](const Tensor& d, const Tensor& at) { return gradient(op, d, at); };
      return {autograd::in_f32(wide, dy[0], x)};
    }
    Tensor dx =
        Tensor::empty(x.shape(), widens(x) ? this->gradient_dtype(0, x.dtype()) : x.dtype(), x.device());
    kernels::unary_backward(current_stream(x.device()), op, dy[0], x, dx);
    return {dx};
  }

 private:
  bool widens(const Tensor& x) const {
    return needs_range(op) && this->under_autocast() && autograd::is_half(x.dtype());
  }
};

// op(x), which has fractions of whole numbers too.
template <UnaryOp op>
Tensor of_any(const Tensor& x) {
  return Unary<op>::apply(autograd::with_fractions(x));
}

// activation(x) from simpler operations.
Tensor activate_wide(const Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return where(less_equal(x, scalar(0, x.dtype(), x.device())), scalar(0, x.dtype(), x.device()), x);
    case Activation::gelu:
      return x * normal_cdf(x);
    case Activation::gelu_tanh:
      return x * (gelu_tanh_inner(x) + 1.0) * 0.5;
    case Activation::silu:
      return x * sigmoid(x);
  }
  throw Bug("activate: unknown activation");
}

// log(1 + e^(beta x)) / beta, and x where beta x > threshold.
struct SoftplusOf : autograd::Function<SoftplusOf> {
  static constexpr const char* name = "softplus";
  static constexpr auto autocast = amp::Policy::f32;
  static constexpr uint32_t autocast_keeps = 0b1;  // x: 16 bits are read where they lie
  static constexpr autograd::OpCost cost = autograd::OpCost::pointwise();
  double beta_ = 1, threshold_ = 0;

  Tensor forward(const Tensor& x, double beta, double threshold) {
    autograd::check_floating(name, x);
    beta_ = beta, threshold_ = threshold;
    save(x);
    auto wide = [&](const Tensor& given) {
      const Tensor scaled = scaled_by_beta(given), is_far = scaled > threshold;
      const Tensor near = where(is_far, like(scaled, 0), softplus(scaled) / beta);
      return near + where(is_far, given, like(given, 0));  // one of the two is 0
    };
    const DType dtype = under_autocast() ? autograd::statistics_dtype(x) : x.dtype();
    return autograd::reading_half(wide, dtype, x);
  }
  TensorList backward(const TensorList& dy) {
    const Tensor x = saved(0);
    auto wide = [&](const Tensor& d, const Tensor& given) {
      const Tensor scaled = scaled_by_beta(given);
      return d * where(scaled > threshold_, like(scaled, 1), sigmoid(scaled));
    };
    return {autograd::reading_half(wide, gradient_dtype(0, x.dtype()), dy[0], x)};
  }

 private:
  static Tensor like(const Tensor& x, double value) { return scalar(value, x.dtype(), x.device()); }
  Tensor scaled_by_beta(const Tensor& x) const {
    return x * scalar(beta_, autograd::statistics_dtype(x), x.device());
  }
};

}  // namespace

Tensor operator-(const Tensor& x) { return Unary<UnaryOp::neg>::apply(x); }
Tensor exp(const Tensor& x) { return of_any<UnaryOp::exp>(x); }
Tensor log(const Tensor& x) { return of_any<UnaryOp::log>(x); }
Tensor sqrt(const Tensor& x) { return of_any<UnaryOp::sqrt>(x); }
Tensor rsqrt(const Tensor& x) { return of_any<UnaryOp::rsqrt>(x); }
Tensor square(const Tensor& x) { return Unary<UnaryOp::square>::apply(x); }
Tensor reciprocal(const Tensor& x) { return of_any<UnaryOp::reciprocal>(x); }
Tensor abs(const Tensor& x) { return Unary<UnaryOp::abs>::apply(x); }
Tensor sin(const Tensor& x) { return of_any<UnaryOp::sin>(x); }
Tensor cos(const Tensor& x) { return of_any<UnaryOp::cos>(x); }
Tensor tanh(const Tensor& x) { return of_any<UnaryOp::tanh>(x); }
Tensor sigmoid(const Tensor& x) { return of_any<UnaryOp::sigmoid>(x); }
Tensor erf(const Tensor& x) { return of_any<UnaryOp::erf>(x); }
Tensor relu(const Tensor& x) { return Unary<UnaryOp::relu>::apply(x); }
Tensor gelu(const Tensor& x) { return Unary<UnaryOp::gelu>::apply(x); }
Tensor gelu_tanh(const Tensor& x) { return Unary<UnaryOp::gelu_tanh>::apply(x); }
Tensor silu(const Tensor& x) { return Unary<UnaryOp::silu>::apply(x); }
Tensor huber(const Tensor& x) { return Unary<UnaryOp::huber>::apply(x); }

Tensor floor(const Tensor& x) { return Unary<UnaryOp::floor>::apply(x); }
Tensor ceil(const Tensor& x) { return Unary<UnaryOp::ceil>::apply(x); }
Tensor round(const Tensor& x) { return Unary<UnaryOp::round>::apply(x); }
Tensor trunc(const Tensor& x) { return Unary<UnaryOp::trunc>::apply(x); }
Tensor sign(const Tensor& x) { return Unary<UnaryOp::sign>::apply(x); }
Tensor log1p(const Tensor& x) { return of_any<UnaryOp::log1p>(x); }
Tensor expm1(const Tensor& x) { return of_any<UnaryOp::expm1>(x); }
Tensor softplus(const Tensor& x) { return Unary<UnaryOp::softplus>::apply(x); }

Tensor softplus(const Tensor& given, double beta, double threshold) {
  autograd::check_given("softplus", given);
  return SoftplusOf::apply(given, beta, threshold);
}

Tensor leaky_relu(const Tensor& x, double slope) {
  autograd::check_given("leaky_relu", x);
  return where(x > 0, x, x * slope);
}
// The clamp keeps e^x finite where it is not taken; at 0 it lets the gradient through.
Tensor elu(const Tensor& x, double alpha) {
  autograd::check_given("elu", x);
  auto wide = [&](const Tensor& w) {
    return where(w > 0, w, expm1(clamp(w, -std::numeric_limits<double>::infinity(), 0)) * alpha);
  };
  return autograd::in_f32(wide, x);
}

Tensor activate(const Tensor& x, Activation activation) {
  return with_activation(activation, [&]<Activation known>() -> Tensor {
    if constexpr (known == Activation::none)
      return x;
    else
      return Unary<kernels::unary_of(known)>::apply(x);
  });
}

Tensor composite::activate(const Tensor& given, Activation activation) {
  auto wide = [&](const Tensor& x) { return activate_wide(x, activation); };
  return autograd::in_f32(wide, given);
}

}  // namespace reprise
