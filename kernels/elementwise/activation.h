// The activations that fused kernels apply.
#pragma once

#include <cstdint>

namespace reprise::kernels {

enum class Activation : uint8_t { none, relu, gelu, gelu_tanh, silu };

}  // namespace reprise::kernels
