// Convolution as a matrix multiply of unfolded windows, on any device: what the CPU does, and what CUDA falls
// back to where cuDNN does not take a convolution. Arguments as in conv2d.h, checked.
#pragma once

#include "reprise/kernels/conv/conv2d.h"

namespace reprise::kernels::conv2d_detail {

/// Errors that name what does not fit. Any of x, weight and y may be the one that is computed.
void check_conv2d(const TensorView& x, const TensorView& weight, const TensorView& bias,
                  const Conv2dOptions& options, const TensorView& y);

void conv2d_by_gemm(const Stream& stream, const TensorView& x, const TensorView& weight,
                    const TensorView& bias, const Conv2dOptions& options, const TensorView& y);
void conv2d_dx_by_gemm(const Stream& stream, const TensorView& dy, const TensorView& weight,
                       const Conv2dOptions& options, const TensorView& dx);
void conv2d_dweight_by_gemm(const Stream& stream, const TensorView& dy, const TensorView& x,
                            const Conv2dOptions& options, const TensorView& dweight);

}  // namespace reprise::kernels::conv2d_detail
