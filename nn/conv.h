// Convolutional layers.
#pragma once

#include "reprise/autograd/ops.h"
#include "reprise/nn/described.h"
#include "reprise/nn/module.h"

namespace reprise::nn {

/// How the windows of a Conv2d lie, and which channels they see. A size is a number or {height, width}.
struct Conv2dLayerOptions {
  Size2 stride = 1;    ///< pixels from one window to the next
  Size2 padding = 0;   ///< rows and columns of zeros at each side
  Size2 dilation = 1;  ///< pixels from one weight of the kernel to the next
  int64_t groups = 1;  ///< the channels are cut into these, each output seeing its own group; `in`: depthwise
  bool bias = true;    ///< adds a number to each output channel
};

/// Images (N, in, H, W) -> (N, out, I, J): `Conv2d patches(3, 192, 16, {.stride = 16})`.
/// Initialised as PyTorch does. Error if a size is not positive or the channels do not divide into the
/// groups.
class Conv2d : public Layer, public Described {
 public:
  /// Weight and bias in f32 from U(-1/sqrt(n), 1/sqrt(n)), n = in / groups * kernel.height * kernel.width.
  Conv2d(int64_t in, int64_t out, Size2 kernel, const Conv2dLayerOptions& options = {}, Device device = {});
  Tensor forward(const Tensor& x) override { return conv2d(x, weight, bias, window_); }
  std::string extra_repr() const override;

  Tensor weight;  ///< (out, in / groups, kernel.height, kernel.width)
  Tensor bias;    ///< (out), undefined without bias

 private:
  Conv2dOptions window_;
};

/// How far a ConvTranspose2d spreads its images, and whether it has a bias.
struct ConvTranspose2dLayerOptions {
  Size2 stride = 1;  ///< pixels of the result from one pixel of x to the next; a number or {height, width}
  bool bias = true;  ///< adds a number to each output channel
};

/// The transpose of a Conv2d without padding: images (N, in, H, W) -> (N, out, (H - 1) stride + kernel, ...).
/// `ConvTranspose2d doubled(64, 32, 2, {.stride = 2})` doubles the sides. Initialised as PyTorch does. Error if a
/// size is not positive.
class ConvTranspose2d : public Layer, public Described {
 public:
  /// Weight and bias in f32 from U(-1/sqrt(n), 1/sqrt(n)), n = out * kernel.height * kernel.width.
  ConvTranspose2d(int64_t in, int64_t out, Size2 kernel, const ConvTranspose2dLayerOptions& options = {},
                  Device device = {});
  Tensor forward(const Tensor& x) override { return conv_transpose2d(x, weight, bias, {.stride = stride_}); }
  std::string extra_repr() const override { return OptionText().add_unless(1, "stride", stride_).str(); }

  Tensor weight;  ///< (in, out, kernel.height, kernel.width)
  Tensor bias;    ///< (out), undefined without bias

 private:
  Size2 stride_;
};

}  // namespace reprise::nn
