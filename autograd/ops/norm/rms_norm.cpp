// Root-mean-square normalisation as one operation: keeps x and one number per row.
#include "reprise/kernels/norm/rms_norm.h"

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/norm/addend.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/result_dtype.h"
#include "reprise/autograd/ops/wide.h"

namespace reprise {
namespace {

using namespace autograd;

struct RmsNorm : Function<RmsNorm> {
  static constexpr const char* name = "rms_norm";
  static constexpr auto autocast = amp::Policy::f32;
  static constexpr uint32_t autocast_keeps = 0b1;  // x: the kernel reads 16 bits and computes in f32
  static constexpr OpCost cost = OpCost::pointwise();
  double eps_ = 0;

  Tensor forward(const Tensor& x, const Tensor& gamma, double eps, DType out) {
    check(x.rank() >= 1, "rms_norm: needs at least one dimension");
    if (!under_autocast()) check_dtype(x, gamma, name);
    eps_ = eps;
    Tensor y = Tensor::empty(x.shape(), out, x.device()), rstd;
    if (recording()) rstd = Tensor::empty(rows_shape(x), statistics_dtype(x), x.device());
    kernels::rms_norm(current_stream(x.device()), {.x = unit_stride(x).view(),
                                                   .gamma = optional_view(gamma),
                                                   .eps = eps,
                                                   .y = y,
                                                   .rstd = optional_view(rstd)});
    save(x, gamma, rstd);
    return y;
  }

  TensorList backward(const TensorList& dy) {
    Tensor x = saved(0), gamma = saved(1);
    if (grad_mode_enabled()) {
      auto same = [&](const TensorList& in) {
        return TensorList{cast(composite::rms_norm(widened(in[0]), in[1], eps_), dy[0].dtype())};
      };
      return composite_backward(same, {x, gamma}, dy);
    }
    Tensor dx, addend, dgamma;
    if (needs_grad(0)) dx = sum_or_empty(x, edges()[0], addend);
    if (needs_grad(1)) dgamma = raw_empty_like(gamma);
    kernels::rms_norm_backward(current_stream(x.device()), {.dy = unit_stride(dy[0]).view(),
                                                            .x = unit_stride(x).view(),
                                                            .gamma = optional_view(gamma),
                                                            .rstd = saved(2).view(),
                                                            .dx = optional_view(dx),
                                                            .addend = optional_view(addend),
                                                            .dgamma = optional_view(dgamma)});
    return {dx, dgamma};
  }
};

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& gamma, double eps, const ResultOptions& result) {
  return RmsNorm::apply(x, gamma, eps, norm_dtype(RmsNorm::name, x, x, result));
}

Tensor composite::rms_norm(const Tensor& x, const Tensor& gamma, double eps) {
  auto wide = [&](const Tensor& rows, const Tensor& scale) {
    Tensor y = rows * rsqrt(mean(square(rows), {-1}, true) + eps);
    return scale.defined() ? y * scale : y;
  };
  return in_f32(wide, x, gamma);
}

}  // namespace reprise
