// Convolution as a matrix multiply of unfolded windows, on any device: what the CPU does where a BLAS has the
// products, and what CUDA does in 16 bits and where cuDNN does not take a convolution. Arguments as in conv2d.h, checked.
#pragma once

#include "reprise/kernels/conv/conv2d.h"

namespace reprise::kernels::conv2d_detail {

/// What becomes of the numbers that a result finds in its place.
enum class Before : uint8_t { overwritten, added_to };

/// Whether a bias or a weight's gradient has the dtype of images, or f32 where that has 16 bits.
bool has_dtype_or_f32(const TensorView& parameter, const TensorView& images);

/// dx without windows: 0, or the bias of each channel.
void fill_channels(const Stream& stream, const TensorView& dx, const TensorView& bias);

/// Errors that name what does not fit; gradients are checked in the place of what they are the gradients of. x may have f32 beside 16 bits:
/// it is rounded as it is copied.
void check_conv2d(const Conv2dArguments& arguments);
void check_conv2d_dx(const Conv2dDxArguments& arguments);
inline void check_conv2d_dweight(const Conv2dDweightArguments& x) {
  TensorView weight = x.dweight;
  if (has_dtype_or_f32(weight, x.dy)) weight.dtype = x.dy.dtype;
  check_conv2d({.x = x.x, .weight = weight, .options = x.options, .y = x.dy});
}
inline void check_conv2d_add_dweight(const Conv2dDweightArguments& x) {
  check_conv2d_dweight(x);
  check(size_of(x.dweight.dtype) > 2, "conv2d: sums of gradients need f32 or f64, got ", x.dweight.dtype);
}

void conv2d_by_gemm(const Stream& stream, const Conv2dArguments& arguments);
void conv2d_dx_by_gemm(const Stream& stream, const Conv2dDxArguments& arguments);
void conv2d_dweight_by_gemm(const Stream& stream, const Conv2dDweightArguments& arguments,
                            Before before = Before::overwritten);

}  // namespace reprise::kernels::conv2d_detail
