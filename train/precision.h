// Precision: what a program computes in. Weights, their gradients and the optimizer's state are f32 in each.
#pragma once

#include <optional>
#include <string_view>

#include "reprise/autograd/amp/autocast.h"

namespace reprise::train {

enum class Precision : uint8_t {
  f32,
  bf16,  ///< autocast: products, and what follows them, in bf16
  f16,   ///< autocast in f16, whose gradients need a loss scale (optim::GradScaler)
};

/// "f32", "bf16" or "f16". Error on anything else.
Precision parse_precision(std::string_view text);

/// Forward passes and losses on this thread and this type of device run in `precision` while it lives.
class PrecisionScope {
 public:
  PrecisionScope(Precision precision, Device device) {
    if (precision == Precision::bf16) autocast_.emplace(device, DType::bf16);
    if (precision == Precision::f16) autocast_.emplace(device, DType::f16);
  }

 private:
  std::optional<amp::Autocast> autocast_;
};

}  // namespace reprise::train
