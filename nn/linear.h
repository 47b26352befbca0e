// Fully connected layer.
#pragma once

#include "reprise/autograd/ops.h"
#include "reprise/nn/module.h"

namespace reprise::nn {

/// Whether a Linear has a bias, and what its parameters start with.
struct LinearOptions {
  bool bias = true;        ///< adds b, a number per output
  double init_stddev = 0;  ///< > 0: of normal weights, beside zero biases (GPT-2); 0: PyTorch's default
};

/// activation(x W^T + b) + residual: (..., in) -> (..., out). Error if a size is not positive.
class Linear : public Layer {
 public:
  /// In f32; weight and bias from U(-1/sqrt(in), 1/sqrt(in)), as PyTorch's, or as `init_stddev` says. Error if that is
  /// negative.
  Linear(int64_t in, int64_t out, const LinearOptions& options = {}, Device device = {});
  Tensor forward(const Tensor& x) override { return linear(x, weight, bias); }
  /// With a fused activation, residual, or both.
  Tensor forward(const Tensor& x, const LinearEpilogue& fused) const;

  Tensor weight;  ///< (out, in)
  Tensor bias;    ///< (out), undefined without bias
};

/// What an epilogue makes of a product (..., N): behind a layer with hooks, where it cannot be a part of the product.
Tensor apply_epilogue(const Tensor& product, const LinearEpilogue& end);

}  // namespace reprise::nn
