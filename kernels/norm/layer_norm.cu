// Layer normalisation on CUDA: the passes are in norm/forward.cuh and norm/backward.cuh.
#include "reprise/kernels/norm/layer_norm.h"

#include "reprise/kernels/norm/backward.cuh"
#include "reprise/kernels/norm/forward.cuh"

namespace reprise::kernels {
namespace {

void forward(const Stream& stream, const char* op, const NormViews& views, double eps) {
  check_norm(op, views);
  dispatch_floating(views.x.dtype, op,
                    [&]<class T>() { device::norm_forward<true, T>(stream, op, views, eps); });
}

void layer_norm_cuda(const Stream& stream, const TensorView& x, const TensorView& gamma,
                     const TensorView& beta, double eps, const TensorView& y, const TensorView& mean,
                     const TensorView& rstd) {
  const TensorView none;
  forward(stream, "layer_norm", {x, none, gamma, beta, none, y, mean, rstd}, eps);
}

void add_layer_norm_cuda(const Stream& stream, const TensorView& x, const TensorView& residual,
                         const TensorView& gamma, const TensorView& beta, double eps, const TensorView& sum,
                         const TensorView& y, const TensorView& mean, const TensorView& rstd) {
  forward(stream, "add_layer_norm", {x, residual, gamma, beta, sum, y, mean, rstd}, eps);
}

void layer_norm_backward_cuda(const Stream& stream, const TensorView& dy, const TensorView& x,
                              const TensorView& gamma, const TensorView& mean, const TensorView& rstd,
                              const TensorView& dx, const TensorView& dgamma, const TensorView& dbeta) {
  constexpr auto op = "layer_norm_backward";
  const NormBackwardViews views = {dy, x, gamma, mean, rstd, dx, dgamma, dbeta};
  check_norm_backward(op, views, true);
  dispatch_floating(x.dtype, op, [&]<class T>() { device::norm_backward<true, T>(stream, op, views); });
}

const OnCuda layer_norm_on_cuda{layer_norm, layer_norm_cuda};
const OnCuda add_layer_norm_on_cuda{add_layer_norm, add_layer_norm_cuda};
const OnCuda layer_norm_backward_on_cuda{layer_norm_backward, layer_norm_backward_cuda};

}  // namespace
}  // namespace reprise::kernels
