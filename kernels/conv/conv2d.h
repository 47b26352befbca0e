// Two-dimensional convolution (cross-correlation, as in deep learning) of images.
//
//   y[n, o, i, j] = bias[o] + sum over c, p, q of
//                   weight[o, c, p, q] x[n, g C/G + c, i stride - padding + p dilation, j ... + q dilation]
//
// x (N, C, H, W), weight (O, C/G, P, Q), y (N, O, I, J); g is o's group of G. All contiguous, of one floating
// dtype. Sums are kept in f32 (f64 for f64).
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

/// `bias` (O) is optional.
extern Kernel<void(const TensorView& x, const TensorView& weight, const TensorView& bias,
                   const Conv2dOptions& options, const TensorView& y)>
    conv2d;

/// The gradient for x. That for the bias is the sum of dy over n, i and j.
extern Kernel<void(const TensorView& dy, const TensorView& weight, const Conv2dOptions& options,
                   const TensorView& dx)>
    conv2d_dx;

/// The gradient for the weight.
extern Kernel<void(const TensorView& dy, const TensorView& x, const Conv2dOptions& options,
                   const TensorView& dweight)>
    conv2d_dweight;

}  // namespace reprise::kernels
