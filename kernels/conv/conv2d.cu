// Convolution on CUDA: by cuDNN, or where that does not take it, and with f32 parameters beside 16-bit images, by unfold
// and gemm.
#include "reprise/kernels/conv/conv2d.h"

#include "reprise/kernels/conv/conv2d_by_gemm.h"
#include "reprise/kernels/conv/cudnn.h"

namespace reprise::kernels {
namespace {

using namespace conv2d_detail;

void conv2d_cuda(const Stream& stream, const Conv2dArguments& arguments) {
  check_conv2d(arguments);
  const bool one_dtype = !arguments.bias || arguments.bias.dtype == arguments.x.dtype;
  if (arguments.y.numel() > 0 && one_dtype && vendor::cudnn_conv2d(stream, arguments)) return;
  conv2d_by_gemm(stream, arguments);
}
void conv2d_dx_cuda(const Stream& stream, const Conv2dDxArguments& arguments) {
  check_conv2d_dx(arguments);
  const bool one_dtype = !arguments.bias || arguments.bias.dtype == arguments.dx.dtype;
  if (arguments.dy.numel() > 0 && arguments.dx.numel() > 0 && one_dtype &&
      vendor::cudnn_conv2d_dx(stream, arguments))
    return;
  conv2d_dx_by_gemm(stream, arguments);
}
void conv2d_dweight_cuda(const Stream& stream, const Conv2dDweightArguments& arguments) {
  check_conv2d_dweight(arguments);
  if (arguments.dy.numel() > 0 && arguments.dweight.numel() > 0 &&
      arguments.dweight.dtype == arguments.x.dtype && vendor::cudnn_conv2d_dweight(stream, arguments))
    return;
  conv2d_dweight_by_gemm(stream, arguments);
}

const OnCuda conv2d_on_cuda{conv2d, conv2d_cuda};
const OnCuda conv2d_dx_on_cuda{conv2d_dx, conv2d_dx_cuda};
const OnCuda conv2d_dweight_on_cuda{conv2d_dweight, conv2d_dweight_cuda};

}  // namespace
}  // namespace reprise::kernels
