// Convolutional layers.
#pragma once

#include "reprise/autograd/ops.h"
#include "reprise/nn/module.h"

namespace reprise::nn {

struct Conv2dLayerOptions {
  Size2 stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};

/// Images (N, in, H, W) -> (N, out, I, J): `Conv2d patches(3, 192, 16, {.stride = 16})`.
/// Initialised as PyTorch does. Error if a size is not positive or the channels do not divide into the
/// groups.
class Conv2d : public Layer {
 public:
  Conv2d(int64_t in, int64_t out, Size2 kernel, const Conv2dLayerOptions& options = {}, Device device = {});
  Tensor forward(const Tensor& x) override { return conv2d(x, weight, bias, window_); }

  Tensor weight;  ///< (out, in / groups, kernel.height, kernel.width)
  Tensor bias;    ///< (out), undefined without bias

 private:
  Conv2dOptions window_;
};

struct ConvTranspose2dLayerOptions {
  Size2 stride = 1;
  bool bias = true;
};

/// The transpose of a Conv2d without padding: images (N, in, H, W) -> (N, out, (H - 1) stride + kernel, ...).
/// `ConvTranspose2d doubled(64, 32, 2, {.stride = 2})` doubles the sides. Initialised as PyTorch does. Error if a
/// size is not positive.
class ConvTranspose2d : public Layer {
 public:
  ConvTranspose2d(int64_t in, int64_t out, Size2 kernel, const ConvTranspose2dLayerOptions& options = {},
                  Device device = {});
  Tensor forward(const Tensor& x) override { return conv_transpose2d(x, weight, bias, {.stride = stride_}); }

  Tensor weight;  ///< (in, out, kernel.height, kernel.width)
  Tensor bias;    ///< (out), undefined without bias

 private:
  Size2 stride_;
};

}  // namespace reprise::nn
