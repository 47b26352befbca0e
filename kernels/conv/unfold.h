// The windows of images as rows of a matrix (im2col), and its transpose.
//
//   columns[(n, i, j), (g, p, q, c)] = x[n, i stride - padding + p dilation, j stride - padding + q dilation, (g, c)]
//
// x (N, H, W, C) with channels last, so that what a window has of a pixel lies side by side; columns (N I J, C P Q) for
// I x J windows of P x Q pixels, whose channels are in G groups; both contiguous, of one floating dtype.
#pragma once

#include "reprise/kernels/conv/windows.h"
#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

extern Kernel<void(const TensorView& x, const Windows& windows, int64_t groups, const TensorView& columns)>
    unfold;

/// x = for each pixel the sum of all places of `columns` that unfold would write it to, in the order of the
/// windows, in f32 (f64 for f64), plus the bias of its channel: (C), optional, of the dtype of x, or f32 where that has 16
/// bits. The same bits on every device. Where each pixel is a window, x may lie over `columns`.
extern Kernel<void(const TensorView& columns, const Windows& windows, int64_t groups, const TensorView& x,
                   const TensorView& bias)>
    fold;

}  // namespace reprise::kernels
