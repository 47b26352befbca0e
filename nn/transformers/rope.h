// Rotary positions of patches on a grid.
#pragma once

#include "reprise/autograd/ops.h"
#include "reprise/nn/module.h"
#include "reprise/nn/transformers/positions.h"

namespace reprise::nn {

/// Rotary position embedding (Su et al. 2021) of patches on a grid, as timm's RotaryEmbeddingCat has it: of a head's
/// channels, 2 i and 2 i + 1 are turned by p w_i, w_i = 10000^(-4 i / head_dim), where p is the patch's row in the first
/// half of the head, and in the second, which counts i anew, its column. The tokens before the patches are not turned.
/// Error unless head_dim is a multiple of 4.
class Rope : public Layer {
 public:
  /// Tables for the patches of `grid` behind `prefix` tokens.
  Rope(const Grid& grid, int64_t prefix, int64_t head_dim, Device device = {});
  /// Tokens (B, prefix + patches, H, head_dim) -> the same shape.
  Tensor forward(const Tensor& x) override { return turned(x, {}); }
  /// The same, hooks included, in the dtype that `result` asks for.
  Tensor forward(const Tensor& x, const ResultOptions& result) const;

 private:
  Tensor turned(const Tensor& x, const ResultOptions& result) const;

  Tensor cosines_, sines_;  // (tokens, 1, head_dim / 2)
};

}  // namespace reprise::nn
