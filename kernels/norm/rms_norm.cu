// Root-mean-square normalisation on CUDA, of R rows of W numbers of e bytes: y = x rstd gamma in 2 R W e bytes; backward, with
// g = dy gamma and h = x rstd, dx = rstd (g - h mean(g h)) in 3 R W e. The passes are those of layer norm without the mean
// (norm/forward.cuh, norm/backward.cuh).
#include "reprise/kernels/norm/rms_norm.h"

#include "reprise/kernels/norm/backward.cuh"
#include "reprise/kernels/norm/forward.cuh"

namespace reprise::kernels {
namespace {

void rms_norm_cuda(const Stream& stream, const NormArguments& v) {
  const char* op = check_norm(v, false);
  device::dispatch_row_type(op, rows_of_norm(v),
                            [&]<class T>() { device::norm_forward<false, T>(stream, op, v); });
}

void rms_norm_backward_cuda(const Stream& stream, const NormBackwardArguments& v) {
  constexpr auto op = "rms_norm_backward";
  check_norm_backward(op, v, false);
  device::dispatch_row_type(op, rows_of_norm(v),
                            [&]<class T>() { device::norm_backward<false, T>(stream, op, v); });
}

const OnCuda rms_norm_on_cuda{rms_norm, rms_norm_cuda};
const OnCuda rms_norm_backward_on_cuda{rms_norm_backward, rms_norm_backward_cuda};

}  // namespace
}  // namespace reprise::kernels
