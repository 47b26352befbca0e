// Two-dimensional convolution (cross-correlation, as in deep learning) of images.
//
//   y[n, o, i, j] = bias[o] + sum over c, p, q of
//                   weight[o, c, p, q] x[n, g C/G + c, i stride - padding + p dilation, j ... + q dilation]
//
// x (N, C, H, W), weight (O, C/G, P, Q), y (N, O, I, J); g is o's group of G. All contiguous, of one floating
// dtype; where that has 16 bits, bias and dweight may be f32. Sums are kept in f32 (f64 for f64).
#pragma once

#include "reprise/kernels/conv/windows.h"
#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

struct Conv2dOptions {
  Size2 stride = 1;
  Size2 padding = 0;
  Size2 dilation = 1;
  int64_t groups = 1;
};
void for_each_attribute(const Conv2dOptions& options, const auto& visit) {
  visit(options.stride), visit(options.padding), visit(options.dilation), visit(options.groups);
}

/// The shape of y. Error if x (N, C, H, W) and weight do not fit, or no window does.
Shape conv2d_shape(const Shape& x, const Shape& weight, const Conv2dOptions& options);

struct Conv2dArguments {
  TensorView x, weight;
  TensorView bias{};  ///< (O), optional
  Conv2dOptions options{};
  TensorView y;
};
extern Kernel<void(const Conv2dArguments& arguments)> conv2d;

/// The gradient for x. That for the bias is the sum of dy over n, i and j.
struct Conv2dDxArguments {
  TensorView dy, weight;
  Conv2dOptions options{};
  TensorView dx;
};
extern Kernel<void(const Conv2dDxArguments& arguments)> conv2d_dx;

/// The gradient for the weight.
struct Conv2dDweightArguments {
  TensorView dy, x;
  Conv2dOptions options{};
  TensorView dweight;
};
extern Kernel<void(const Conv2dDweightArguments& arguments)> conv2d_dweight;

}  // namespace reprise::kernels
