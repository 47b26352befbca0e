// The formulas of the activations and their derivatives, for float, double and vectors of either.
#pragma once

#include "reprise/kernels/cpu/simd_math.h"
#include "reprise/kernels/elementwise/activation.h"

namespace reprise::kernels {

namespace detail {

/// The standard normal distribution: its integral up to x.
template <class V>
[[gnu::always_inline]] inline V normal_cdf(V x) {
  using T = simd::Lane<V>;
  return T(0.5) * (T(1) + simd::erf(x * T(0.70710678118654752440)));
}

/// Its density at x.
template <class V>
[[gnu::always_inline]] inline V normal_density(V x) {
  using T = simd::Lane<V>;
  return T(0.39894228040143267794) * simd::exp(T(-0.5) * x * x);
}

// gelu_tanh (Hendrycks and Gimpel, arXiv 1606.08415): x/2 (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3).
template <class T>
inline constexpr T gelu_scale = T(0.79788456080286535588);
template <class T>
inline constexpr T gelu_cubic = T(0.044715);

template <class V>
[[gnu::always_inline]] inline V gelu_tanh(V x) {
  using T = simd::Lane<V>;
  V t = simd::tanh(gelu_scale<T> * (x + gelu_cubic<T> * x * x * x));
  return T(0.5) * x * (T(1) + t);
}

template <class V>
[[gnu::always_inline]] inline V gelu_tanh_gradient(V x) {
  using T = simd::Lane<V>;
  V t = simd::tanh(gelu_scale<T> * (x + gelu_cubic<T> * x * x * x));
  V slope = x * (T(1) - t * t);  // 0 far out, and so all that it is multiplied by: x^2 alone would overflow
  return T(0.5) * (T(1) + t) + (T(0.5) * gelu_scale<T>)*(slope + (T(3) * gelu_cubic<T>)*(slope * x * x));
}

}  // namespace detail

/// f(x). gelu is x times the normal distribution's integral up to x; silu is x sigmoid(x). relu keeps NaN.
template <class V>
[[gnu::always_inline]] inline V activate(Activation activation, V x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x < V{} ? V{} : x;
    case Activation::gelu:
      return x * detail::normal_cdf(x);
    case Activation::gelu_tanh:
      return detail::gelu_tanh(x);
    case Activation::silu:
      return x * simd::sigmoid(x);
  }
  return x;
}

/// dy f'(x). relu passes dy on where x > 0 or is NaN, and keeps an infinite dy out elsewhere, as in PyTorch.
template <class V>
[[gnu::always_inline]] inline V activation_gradient(Activation activation, V dy, V x) {
  using T = simd::Lane<V>;
  switch (activation) {
    case Activation::none:
      return dy;
    case Activation::relu:
      return x <= V{} ? V{} : dy;
    case Activation::gelu:
      return dy * (detail::normal_cdf(x) + x * detail::normal_density(x));
    case Activation::gelu_tanh:
      return dy * detail::gelu_tanh_gradient(x);
    case Activation::silu: {
      V s = simd::sigmoid(x);
      return dy * (s * (T(1) + x * (T(1) - s)));
    }
  }
  return dy;
}

}  // namespace reprise::kernels
