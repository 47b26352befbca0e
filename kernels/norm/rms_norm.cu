// Root-mean-square normalisation on CUDA: the passes are those of layer norm without the mean
// (norm/forward.cuh, norm/backward.cuh).
#include "reprise/kernels/norm/rms_norm.h"

#include "reprise/kernels/norm/backward.cuh"
#include "reprise/kernels/norm/forward.cuh"

namespace reprise::kernels {
namespace {

void forward(const Stream& stream, const char* op, const NormViews& views, double eps) {
  check_norm(op, views);
  dispatch_floating(views.x.dtype, op,
                    [&]<class T>() { device::norm_forward<false, T>(stream, op, views, eps); });
}

void rms_norm_cuda(const Stream& stream, const TensorView& x, const TensorView& gamma, double eps,
                   const TensorView& y, const TensorView& rstd) {
  const TensorView none;
  forward(stream, "rms_norm", {x, none, gamma, none, none, y, none, rstd}, eps);
}

void add_rms_norm_cuda(const Stream& stream, const TensorView& x, const TensorView& residual,
                       const TensorView& gamma, double eps, const TensorView& sum, const TensorView& y,
                       const TensorView& rstd) {
  const TensorView none;
  forward(stream, "add_rms_norm", {x, residual, gamma, none, sum, y, none, rstd}, eps);
}

void rms_norm_backward_cuda(const Stream& stream, const TensorView& dy, const TensorView& x,
                            const TensorView& gamma, const TensorView& rstd, const TensorView& dx,
                            const TensorView& dgamma) {
  constexpr auto op = "rms_norm_backward";
  const TensorView none;
  const NormBackwardViews views = {dy, x, gamma, none, rstd, dx, dgamma, none};
  check_norm_backward(op, views, false);
  dispatch_floating(x.dtype, op, [&]<class T>() { device::norm_backward<false, T>(stream, op, views); });
}

const OnCuda rms_norm_on_cuda{rms_norm, rms_norm_cuda};
const OnCuda add_rms_norm_on_cuda{add_rms_norm, add_rms_norm_cuda};
const OnCuda rms_norm_backward_on_cuda{rms_norm_backward, rms_norm_backward_cuda};

}  // namespace
}  // namespace reprise::kernels
