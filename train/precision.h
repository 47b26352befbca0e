// Precision: what a program computes in, and what its weights are stored in.
#pragma once

#include <optional>
#include <string_view>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/nn/module.h"

namespace reprise::train {

/// The choices of `--precision`.
enum class Precision : uint8_t {
  f32,   ///< everything
  bf16,  ///< autocast: products, and what follows them, in bf16; weights, their gradients and moments in f32
  f16,   ///< autocast in f16, whose gradients need a loss scale (optim::GradScaler)
  bf16_pure,  ///< weights are bf16 too, all but those of norms, and so is the residual stream
  f16_pure,   ///< in f16, with a loss scale
};

/// "f32", "bf16", "f16", "bf16-pure" or "f16-pure". Error on anything else.
Precision parse_precision(std::string_view text);
/// Whether weights have 16 bits.
bool is_pure(Precision precision);
/// Whether gradients need a loss scale.
bool is_f16(Precision precision);

/// Forward passes and losses on this thread and this type of device run in `precision` while it lives.
class PrecisionScope {
 public:
  /// In f32 it does nothing.
  PrecisionScope(Precision precision, Device device) {
    if (precision == Precision::f32) return;
    autocast_.emplace(
        device, is_f16(precision) ? DType::f16 : DType::bf16,
        amp::AutocastOptions{.norms = is_pure(precision) ? amp::Norms::as_given : amp::Norms::f32});
  }

 private:
  std::optional<amp::Autocast> autocast_;
};

/// In a pure precision: gives a model weights of 16 bits (nn::to_precision). Make optimizers and averages afterwards.
void to_precision(nn::Module& model, Precision precision);
/// Gradients of weights of 16 bits are kept and added up in f32 ("main gradients").
void use_main_gradients(nn::Module& model);

}  // namespace reprise::train
