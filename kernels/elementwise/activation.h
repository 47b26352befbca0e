// The activations that fused kernels apply.
#pragma once

#include <cstdint>

namespace reprise::kernels {

enum class Activation : uint8_t { none, relu, gelu, gelu_tanh, silu };

/// body.operator()<activation>(): one branch for all that the body works on.
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
