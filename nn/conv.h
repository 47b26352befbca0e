// Convolutional layer.
#pragma once

#include "reprise/autograd/ops.h"
#include "reprise/nn/module.h"

namespace reprise::nn {

/// Images (N, in, H, W) -> (N, out, I, J): `Conv2d patches(3, 192, 16, {.stride = 16})`. Initialised as
/// PyTorch does.
class Conv2d : public Layer {
 public:
  Conv2d(int64_t in, int64_t out, Size2 kernel, const Conv2dOptions& options = {}, bool has_bias = true,
         Device device = {});
  Tensor forward(const Tensor& x) override { return conv2d(x, weight, bias, options_); }

  Tensor weight;  ///< (out, in / groups, kernel.height, kernel.width)
  Tensor bias;    ///< (out), undefined without bias

 private:
  Conv2dOptions options_;
};

}  // namespace reprise::nn
