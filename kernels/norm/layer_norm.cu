// Layer normalisation on CUDA, of R rows of W numbers of e bytes: y = (x - mean) rstd gamma + beta in 2 R W e bytes; backward, with
// g = dy gamma and h = (x - mean) rstd, dx = rstd (g - mean(g) - h mean(g h)) in 3 R W e. The passes are in norm/forward.cuh and
// norm/backward.cuh.
#include "reprise/kernels/norm/layer_norm.h"

#include "reprise/kernels/norm/backward.cuh"
#include "reprise/kernels/norm/forward.cuh"

namespace reprise::kernels {
namespace {

void layer_norm_cuda(const Stream& stream, const NormArguments& v) {
  const char* op = check_norm(v, true);
  device::dispatch_row_type(op, rows_of_norm(v),
                            [&]<class T>() { device::norm_forward<true, T>(stream, op, v); });
}

void layer_norm_backward_cuda(const Stream& stream, const NormBackwardArguments& v) {
  constexpr auto op = "layer_norm_backward";
  check_norm_backward(op, v, true);
  device::dispatch_row_type(op, rows_of_norm(v),
                            [&]<class T>() { device::norm_backward<true, T>(stream, op, v); });
}

const OnCuda layer_norm_on_cuda{layer_norm, layer_norm_cuda};
const OnCuda layer_norm_backward_on_cuda{layer_norm_backward, layer_norm_backward_cuda};

}  // namespace
}  // namespace reprise::kernels
