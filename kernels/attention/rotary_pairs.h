// Which channels rotary positions turn together.
#pragma once

#include <cstdint>

namespace reprise::kernels {

/// Which channels of D are turned together. Programs call it `reprise::RotaryPairs`.
enum class RotaryPairs : uint8_t {
  halves,    ///< i and i + D/2 (Llama, Hugging Face)
  adjacent,  ///< 2 i and 2 i + 1 (Su et al. 2021; timm)
};

}  // namespace reprise::kernels
