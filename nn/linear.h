// Fully connected layer.
#pragma once

#include "reprise/autograd/ops.h"
#include "reprise/nn/module.h"

namespace reprise::nn {

struct LinearOptions {
  bool bias = true;
  double init_stddev = 0;  ///< > 0: of normal weights, beside zero biases (GPT-2); 0: PyTorch's default
};

/// activation(x W^T + b) + residual: (..., in) -> (..., out). Error if a size is not positive.
class Linear : public Layer {
 public:
  Linear(int64_t in, int64_t out, const LinearOptions& options = {}, Device device = {});
  Tensor forward(const Tensor& x) override { return linear(x, weight, bias); }
  /// With a fused activation, residual, or both.
  Tensor forward(const Tensor& x, const LinearEpilogue& fused);

  Tensor weight;  ///< (out, in)
  Tensor bias;    ///< (out), undefined without bias
};

}  // namespace reprise::nn
