// The MLP of a transformer block, gated or not.
#pragma once

#include <optional>

#include "reprise/nn/described.h"
#include "reprise/nn/linear.h"

namespace reprise::nn {

/// What an Mlp is made with.
struct MlpOptions {
  Activation activation = Activation::gelu_tanh;  ///< behind the first layer, or behind the gate
  /// A gate stands beside the first layer: fc2(activation(fc1_g(x)) * fc1(x)) (Shazeer 2020); with Activation::silu SwiGLU.
  bool gated = false;
  bool bias = true;          ///< of all layers
  double init_stddev = 0;    ///< of the linear layers; 0: PyTorch's default
  double output_stddev = 0;  ///< of the one that writes to the residual stream; 0: as init_stddev
};

/// Two linear layers with an activation between, one fused operation, or three where it is gated: (..., width) -> (..., width). Names
/// are timm's: fc1 and fc2, or fc1_g, fc1_x and fc2.
class Mlp : public Layer, public Described {
 public:
  /// From width to `hidden` and back. Error if a size is not positive, or a stddev negative.
  Mlp(int64_t width, int64_t hidden, const MlpOptions& options = {}, Device device = {});
  using Layer::operator();
  Tensor forward(const Tensor& x) override { return fused(x, {}); }
  /// mlp(x), hooks included, and what `end` says of its last product: a residual, scales.
  Tensor operator()(const Tensor& x, const LinearEpilogue& end) const;
  std::string extra_repr() const override { return OptionText().add("activation", activation_).str(); }

  std::optional<Linear> fc1_g;  ///< the gate, weight (hidden, width); none unless gated
  Linear fc1;                   ///< weight (hidden, width); where it is gated, "fc1_x" among the names
  Linear fc2;                   ///< weight (width, hidden)

 private:
  Tensor fused(const Tensor& x, const LinearEpilogue& end) const;

  Activation activation_;
};

/// The `hidden` of an Mlp for which it is 0: 4 * width; of a gated one 8/3 of the width, up to the next multiple of 64, which has
/// about as many weights.
int64_t default_hidden(int64_t width, bool gated);

}  // namespace reprise::nn
