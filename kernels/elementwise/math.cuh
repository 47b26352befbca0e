// The activations and their derivatives on float or double: the formulas of
// kernels/elementwise/activation_math.h in CUDA's own maths, for elementwise kernels and the epilogues of
// gemm. With the activation known at compile time the switch is gone.
#pragma once

#include <cmath>

#include "reprise/kernels/elementwise/activation.h"
#include "reprise/simt/simt.h"

namespace reprise::kernels::device {

/// 1 / (1 + e^-x): 0 and 1 far out, never NaN.
template <class C>
__device__ __forceinline__ C sigmoid(C x) {
  return C(1) / (C(1) + std::exp(-x));
}

/// The standard normal distribution: its integral up to x.
template <class C>
__device__ __forceinline__ C normal_cdf(C x) {
  return C(0.5) * (C(1) + std::erf(x * C(0.70710678118654752440)));
}

/// Its density at x.
template <class C>
__device__ __forceinline__ C normal_density(C x) {
  return C(0.39894228040143267794) * std::exp(C(-0.5) * x * x);
}

// gelu_tanh is x/2 (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3). (1 + tanh(u)) / 2 is sigmoid(2u): one
// exp and one division, and nothing cancels for negative x.
template <class C>
__device__ __forceinline__ C gelu_tanh_gate(C x) {
  return sigmoid(C(2 * 0.79788456080286535588) * (x + C(0.044715) * x * x * x));
}

template <class C>
__device__ __forceinline__ C gelu_tanh_gradient(C x) {
  C s = gelu_tanh_gate(x);
  C slope = x * (s * (C(1) - s));  // 0 far out, and so all that it is multiplied by: x^2 alone would overflow
  return s + C(2 * 0.79788456080286535588) * (slope + C(3 * 0.044715) * (slope * x * x));
}

/// Calls body.operator()<activation>(): one branch for all the elements that it works on.
template <class Body>
__device__ __forceinline__ void with_activation(Activation activation, Body&& body) {
  switch (activation) {
    case Activation::none:
      return body.template operator()<Activation::none>();
    case Activation::relu:
      return body.template operator()<Activation::relu>();
    case Activation::gelu:
      return body.template operator()<Activation::gelu>();
    case Activation::gelu_tanh:
      return body.template operator()<Activation::gelu_tanh>();
    case Activation::silu:
      return body.template operator()<Activation::silu>();
  }
}

/// f(x). gelu is x times the normal distribution's integral up to x; silu is x sigmoid(x). relu keeps NaN.
template <class C>
__device__ __forceinline__ C activate(Activation activation, C x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x < C(0) ? C(0) : x;
    case Activation::gelu:
      return x * normal_cdf(x);
    case Activation::gelu_tanh:
      return x * gelu_tanh_gate(x);
    case Activation::silu:
      return x * sigmoid(x);
  }
  return x;
}

/// dy f'(x). relu passes dy on where x > 0 or is NaN, and keeps an infinite dy out elsewhere, as in PyTorch.
template <class C>
__device__ __forceinline__ C activation_gradient(Activation activation, C dy, C x) {
  switch (activation) {
    case Activation::none:
      return dy;
    case Activation::relu:
      return x <= C(0) ? C(0) : dy;
    case Activation::gelu:
      return dy * (normal_cdf(x) + x * normal_density(x));
    case Activation::gelu_tanh:
      return dy * gelu_tanh_gradient(x);
    case Activation::silu: {
      C s = sigmoid(x);
      return dy * (s * (C(1) + x * (C(1) - s)));
    }
  }
  return dy;
}

}  // namespace reprise::kernels::device
