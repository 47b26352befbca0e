// Layer normalisation as one operation: keeps x and two numbers per row.
#include "reprise/kernels/norm/layer_norm.h"

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/norm/addend.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/result_dtype.h"
#include "reprise/autograd/ops/wide.h"

namespace reprise {
namespace {

using namespace autograd;

struct LayerNorm : Function<LayerNorm> {
  static constexpr const char* name = "layer_norm";
  static constexpr auto autocast = amp::Policy::f32;
  static constexpr uint32_t autocast_keeps = 0b1;  // x: the kernel reads 16 bits and computes in f32
  static constexpr OpCost cost = OpCost::pointwise();
  double eps_ = 0;

  Tensor forward(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps, DType out) {
    check(x.rank() >= 1, "layer_norm: needs at least one dimension");
    if (!under_autocast()) check_dtype(x, gamma, name), check_dtype(x, beta, name);
    eps_ = eps;
    Tensor y = Tensor::empty(x.shape(), out, x.device()), mean, rstd;
    if (recording()) {
      mean = Tensor::empty(rows_shape(x), statistics_dtype(x), x.device());
      rstd = Tensor::empty(rows_shape(x), statistics_dtype(x), x.device());
    }
    kernels::layer_norm(current_stream(x.device()), {.x = unit_stride(x).view(),
                                                     .gamma = optional_view(gamma),
                                                     .beta = optional_view(beta),
                                                     .eps = eps,
                                                     .y = y,
                                                     .mean = optional_view(mean),
                                                     .rstd = optional_view(rstd)});
    save(x, gamma, beta, mean, rstd);
    return y;
  }

  TensorList backward(const TensorList& dy) {
    Tensor x = saved(0), gamma = saved(1), beta = saved(2);
    if (grad_mode_enabled()) {
      auto same = [&](const TensorList& in) {
        return TensorList{cast(composite::layer_norm(widened(in[0]), in[1], in[2], eps_), dy[0].dtype())};
      };
      return composite_backward(same, {x, gamma, beta}, dy);
    }
    Tensor dx, addend, dgamma, dbeta;
    if (needs_grad(0)) dx = sum_or_empty(x, edges()[0], addend);
    if (needs_grad(1)) dgamma = raw_empty_like(gamma);
    if (needs_grad(2)) dbeta = raw_empty_like(beta);
    kernels::layer_norm_backward(current_stream(x.device()), {.dy = unit_stride(dy[0]).view(),
                                                              .x = unit_stride(x).view(),
                                                              .gamma = optional_view(gamma),
                                                              .mean = saved(3).view(),
                                                              .rstd = saved(4).view(),
                                                              .dx = optional_view(dx),
                                                              .addend = optional_view(addend),
                                                              .dgamma = optional_view(dgamma),
                                                              .dbeta = optional_view(dbeta)});
    return {dx, dgamma, dbeta};
  }
};

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps,
                  const ResultOptions& result) {
  return LayerNorm::apply(x, gamma, beta, eps, norm_dtype(LayerNorm::name, x, x, result));
}

Tensor composite::layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps) {
  auto wide = [&](const Tensor& rows, const Tensor& scale, const Tensor& shift) {
    Tensor centred = rows - mean(rows, {-1}, true);
    Tensor y = centred * rsqrt(mean(square(centred), {-1}, true) + eps);
    if (scale.defined()) y = y * scale;
    return shift.defined() ? y + shift : y;
  };
  return in_f32(wide, x, gamma, beta);
}

}  // namespace reprise
