// Convolution on CUDA: by cuDNN, or where that does not take it by unfold and gemm.
#include "reprise/kernels/conv/conv2d.h"

#include "reprise/kernels/conv/conv2d_by_gemm.h"
#include "reprise/kernels/conv/cudnn.h"

namespace reprise::kernels {
namespace {

using namespace conv2d_detail;

void conv2d_cuda(const Stream& stream, const TensorView& x, const TensorView& weight, const TensorView& bias,
                 const Conv2dOptions& options, const TensorView& y) {
  check_conv2d(x, weight, bias, options, y);
  if (y.numel() > 0 && vendor::cudnn_conv2d(stream, x, weight, bias, options, y)) return;
  conv2d_by_gemm(stream, x, weight, bias, options, y);
}
void conv2d_dx_cuda(const Stream& stream, const TensorView& dy, const TensorView& weight,
                    const Conv2dOptions& options, const TensorView& dx) {
  check_conv2d(dx, weight, {}, options, dy);
  if (dy.numel() > 0 && dx.numel() > 0 && vendor::cudnn_conv2d_dx(stream, dy, weight, options, dx)) return;
  conv2d_dx_by_gemm(stream, dy, weight, options, dx);
}
void conv2d_dweight_cuda(const Stream& stream, const TensorView& dy, const TensorView& x,
                         const Conv2dOptions& options, const TensorView& dweight) {
  check_conv2d(x, dweight, {}, options, dy);
  if (dy.numel() > 0 && dweight.numel() > 0 && vendor::cudnn_conv2d_dweight(stream, dy, x, options, dweight))
    return;
  conv2d_dweight_by_gemm(stream, dy, x, options, dweight);
}

const OnCuda conv2d_on_cuda{conv2d, conv2d_cuda};
const OnCuda conv2d_dx_on_cuda{conv2d_dx, conv2d_dx_cuda};
const OnCuda conv2d_dweight_on_cuda{conv2d_dweight, conv2d_dweight_cuda};

}  // namespace
}  // namespace reprise::kernels
