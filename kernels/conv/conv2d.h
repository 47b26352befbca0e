// Two-dimensional convolution (cross-correlation, as in deep learning) of images.
//
//   y[n, o, i, j] = bias[o] + sum over c, p, q of
//                   weight[o, c, p, q] x[n, g C/G + c, i stride - padding + p dilation, j ... + q dilation]
//
// x (N, C, H, W), weight (O, C/G, P, Q), y (N, O, I, J); g is o's group of G. All contiguous, of one floating
// dtype; where that has 16 bits, x (not dx), bias and dweight may be f32. Sums are kept in f32 (f64 for f64).
#pragma once

#include "reprise/kernels/conv/windows.h"
#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

/// How windows lie on the images, and which channels meet. Programs call it `reprise::Conv2dOptions`.
struct Conv2dOptions {
  Size2 stride = 1;    ///< pixels from one window to the next
  Size2 padding = 0;   ///< zeros around the image, on each side
  Size2 dilation = 1;  ///< pixels from one of the window's to the next; 1: they are neighbours
  int64_t groups = 1;  ///< parts of the channels that are convolved apart; divides C and O
};
/// What recompute compares of a call: see autograd::AttributeHash.
void for_each_attribute(const Conv2dOptions& options, const auto& visit) {
  visit(options.stride), visit(options.padding), visit(options.dilation), visit(options.groups);
}

/// The shape of y. Error if x (N, C, H, W) and weight do not fit, or no window does.
Shape conv2d_shape(const Shape& x, const Shape& weight, const Conv2dOptions& options);

/// What conv2d reads and writes.
struct Conv2dArguments {
  TensorView x;             ///< (N, C, H, W)
  TensorView weight;        ///< (O, C/G, P, Q)
  TensorView bias{};        ///< (O), optional
  Conv2dOptions options{};  ///< of the windows
  TensorView y;             ///< (N, O, I, J): written
};
/// y = the convolution of x and weight, plus bias.
extern Kernel<void(const Conv2dArguments& arguments)> conv2d;

/// What conv2d_dx reads and writes.
struct Conv2dDxArguments {
  TensorView dy;      ///< (N, O, I, J)
  TensorView weight;  ///< (O, C/G, P, Q)
  TensorView bias{};  ///< (C), optional: for a transposed convolution, which this is with dx for its result
  Conv2dOptions options{};  ///< as forward had them
  TensorView dx;            ///< (N, C, H, W): written
};
/// The gradient for x, plus bias. That for the bias of conv2d is the sum of dy over n, i and j.
extern Kernel<void(const Conv2dDxArguments& arguments)> conv2d_dx;

/// What conv2d_dweight reads and writes.
struct Conv2dDweightArguments {
  TensorView dy;            ///< (N, O, I, J)
  TensorView x;             ///< (N, C, H, W)
  Conv2dOptions options{};  ///< as forward had them
  TensorView dweight;       ///< (O, C/G, P, Q): written
};
/// The gradient for the weight.
extern Kernel<void(const Conv2dDweightArguments& arguments)> conv2d_dweight;

}  // namespace reprise::kernels
