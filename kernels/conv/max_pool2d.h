// The largest pixel of each window, as PyTorch has it: pixels outside of the image do not take part, NaN wins, and of
// equal ones the first in row order.
//
//   y[n, c, i, j] = max over p, q of x[n, c, i stride - padding + p dilation, j stride - padding + q dilation]
//
// x (N, C, H, W), y (N, C, I, J), contiguous, of one floating dtype; y's shape says how many windows there are.
#pragma once

#include "reprise/kernels/conv/windows.h"
#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

/// `places`, i32 of y's shape: where each maximum lies in its plane, row W + column. Error if a window covers no
/// pixel.
extern Kernel<void(const TensorView& x, const Windows& windows, const TensorView& y,
                   const TensorView& places)>
    max_pool2d;

/// dx = for each pixel the sum of dy over the windows whose place it is, in the order of the windows, in f32 (f64
/// for f64). The same bits on every device.
extern Kernel<void(const TensorView& dy, const TensorView& places, const Windows& windows,
                   const TensorView& dx)>
    max_pool2d_dx;

/// What any device checks before it launches. x may be the gradient, and y its.
void check_max_pool2d(const char* op, const TensorView& x, const Windows& windows, const TensorView& y,
                      const TensorView& places);

}  // namespace reprise::kernels
