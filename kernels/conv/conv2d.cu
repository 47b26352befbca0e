// Convolution on CUDA: of f32 and f64 by cuDNN, or where that does not take it, and of 16 bits, by unfold and gemm, whose
// products are on tensor cores: cuDNN's deterministic algorithms for images that lie plane by plane are not, and a step of a ResNet-50
// took 17 times as long by them on an H100 (docs/results/2026-11-27-h100.md).
#include "reprise/kernels/conv/conv2d.h"

#include "reprise/kernels/conv/conv2d_add_dweight.h"
#include "reprise/kernels/conv/conv2d_by_gemm.h"
#include "reprise/kernels/conv/cudnn.h"
#include "reprise/kernels/cuda/workspace.h"
#include "reprise/kernels/elementwise/elementwise.h"

namespace reprise::kernels {
namespace {

using namespace conv2d_detail;

/// By the results, or their gradients: images may be f32 beside 16 bits.
bool suits_cudnn(const TensorView& y) { return size_of(y.dtype) > 2; }

void conv2d_cuda(const Stream& stream, const Conv2dArguments& arguments) {
  check_conv2d(arguments);
  if (arguments.y.numel() > 0 && suits_cudnn(arguments.y) && vendor::cudnn_conv2d(stream, arguments)) return;
  conv2d_by_gemm(stream, arguments);
}
void conv2d_dx_cuda(const Stream& stream, const Conv2dDxArguments& arguments) {
  check_conv2d_dx(arguments);
  if (arguments.dy.numel() > 0 && arguments.dx.numel() > 0 && suits_cudnn(arguments.dy) &&
      vendor::cudnn_conv2d_dx(stream, arguments))
    return;
  conv2d_dx_by_gemm(stream, arguments);
}
bool dweight_by_cudnn(const Stream& stream, const Conv2dDweightArguments& arguments) {
  return arguments.dy.numel() > 0 && arguments.dweight.numel() > 0 && suits_cudnn(arguments.dy) &&
         vendor::cudnn_conv2d_dweight(stream, arguments);
}
void conv2d_dweight_cuda(const Stream& stream, const Conv2dDweightArguments& arguments) {
  check_conv2d_dweight(arguments);
  if (!dweight_by_cudnn(stream, arguments)) conv2d_dweight_by_gemm(stream, arguments);
}
void conv2d_add_dweight_cuda(const Stream& stream, const Conv2dDweightArguments& arguments) {
  check_conv2d_add_dweight(arguments);
  const TensorView& dweight = arguments.dweight;
  const size_t bytes = suits_cudnn(arguments.dy) ? size_t(dweight.numel()) * size_of(dweight.dtype) : 0;
  const device::Workspace scratch(stream, bytes);
  Conv2dDweightArguments apart = arguments;
  apart.dweight.data = scratch.as<void>();
  if (dweight_by_cudnn(stream, apart)) return add_scaled(stream, apart.dweight, 1, dweight);
  conv2d_dweight_by_gemm(stream, arguments, Before::added_to);
}

const OnCuda conv2d_on_cuda{conv2d, conv2d_cuda};
const OnCuda conv2d_dx_on_cuda{conv2d_dx, conv2d_dx_cuda};
const OnCuda conv2d_dweight_on_cuda{conv2d_dweight, conv2d_dweight_cuda};
const OnCuda conv2d_add_dweight_on_cuda{conv2d_add_dweight, conv2d_add_dweight_cuda};

}  // namespace
}  // namespace reprise::kernels
