// The activations that fused kernels apply.
#pragma once

#include <cstdint>

namespace reprise::kernels {

/// A function of each number, fused into what makes them. Programs call it `reprise::Activation`.
enum class Activation : uint8_t {
  none,       ///< x itself
  relu,       ///< max(x, 0)
  gelu,       ///< x Phi(x), Phi of the normal distribution, by erf (Hendrycks and Gimpel 2016)
  gelu_tanh,  ///< its approximation by tanh: GPT-2's
  silu,       ///< x / (1 + e^-x), also called swish
};

/// `body.operator()<activation>()`: one branch for all that the body works on.
template <class Body>
[[gnu::always_inline]] constexpr inline decltype(auto) with_activation(Activation activation, Body&& body) {
  switch (activation) {
    case Activation::relu:
      return body.template operator()<Activation::relu>();
    case Activation::gelu:
      return body.template operator()<Activation::gelu>();
    case Activation::gelu_tanh:
      return body.template operator()<Activation::gelu_tanh>();
    case Activation::silu:
      return body.template operator()<Activation::silu>();
    case Activation::none:
      break;
  }
  return body.template operator()<Activation::none>();
}

}  // namespace reprise::kernels
