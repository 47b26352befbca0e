// Pooling as layers.
#pragma once

#include "reprise/nn/layers.h"

namespace reprise::nn {

/// `max_pool2d` with windows of `kernel` pixels: images (N, C, H, W) -> (N, C, I, J).
class MaxPool2d : public Layer, public Described {
 public:
  /// The stride is the kernel's size where the options name none.
  explicit MaxPool2d(Size2 kernel, const MaxPool2dOptions& options = {})
      : kernel_(kernel), options_(options) {}
  Tensor forward(const Tensor& x) override { return max_pool2d(x, kernel_, options_); }
  std::string extra_repr() const override;

 private:
  Size2 kernel_;
  MaxPool2dOptions options_;
};

/// `avg_pool2d` with windows of `kernel` pixels: images (N, C, H, W) -> (N, C, I, J).
class AvgPool2d : public Layer, public Described {
 public:
  /// The stride is the kernel's size where the options name none.
  explicit AvgPool2d(Size2 kernel, const AvgPool2dOptions& options = {})
      : kernel_(kernel), options_(options) {}
  Tensor forward(const Tensor& x) override { return avg_pool2d(x, kernel_, options_); }
  std::string extra_repr() const override;

 private:
  Size2 kernel_;
  AvgPool2dOptions options_;
};

}  // namespace reprise::nn
