// Group normalisation as one operation: keeps x and two numbers per group of a sample.
#include "reprise/kernels/norm/group_norm.h"

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/wide.h"

namespace reprise {
namespace {

using namespace autograd;

struct GroupNorm : Function<GroupNorm> {
  static constexpr const char* name = "group_norm";
  static constexpr auto autocast = amp::Policy::f32;
  static constexpr uint32_t autocast_keeps = 0b1;  // x: the kernel reads 16 bits and computes in f32
  static constexpr OpCost cost = OpCost::pointwise();
  int64_t groups_ = 1;
  double eps_ = 0;

  Tensor forward(const Tensor& x, const Tensor& gamma, const Tensor& beta, int64_t groups, double eps) {
    const DType dtype = under_autocast() ? statistics_dtype(x) : x.dtype();
    Tensor y = Tensor::empty(x.shape(), dtype, x.device()), mean, rstd;
    check_dtype(y, gamma, name);
    check_dtype(y, beta, name);
    groups_ = groups;
    eps_ = eps;
    if (recording()) {
      mean = Tensor::empty({x.size(0), groups}, statistics_dtype(x), x.device());
      rstd = Tensor::empty({x.size(0), groups}, statistics_dtype(x), x.device());
    }
    kernels::group_norm(current_stream(x.device()), {.x = x.contiguous().view(),
                                                     .groups = groups,
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
        const Tensor y = composite::group_norm(widened(in[0]), groups_, in[1], in[2], eps_);
        return TensorList{cast(y, dy[0].dtype())};
      };
      return composite_backward(same, {x, gamma, beta}, dy);
    }
    Tensor dx, dgamma, dbeta;
    const DType of_dx = under_autocast() ? gradient_dtype(0, x.dtype()) : x.dtype();
    if (needs_grad(0)) dx = Tensor::empty(x.shape(), of_dx, x.device());
    if (needs_grad(1)) dgamma = raw_empty_like(gamma);
    if (needs_grad(2)) dbeta = raw_empty_like(beta);
    kernels::group_norm_backward(current_stream(x.device()), {.dy = dy[0].contiguous().view(),
                                                              .x = x.contiguous().view(),
                                                              .groups = groups_,
                                                              .gamma = optional_view(gamma),
                                                              .mean = saved(3).view(),
                                                              .rstd = saved(4).view(),
                                                              .dx = optional_view(dx),
                                                              .dgamma = optional_view(dgamma),
                                                              .dbeta = optional_view(dbeta)});
    return {dx, dgamma, dbeta};
  }
};

}  // namespace

Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& gamma, const Tensor& beta, double eps) {
  check_given("group_norm", x);
  check(x.rank() >= 2, "group_norm: needs (N, C, ...), got shape ", x.shape());
  check(groups >= 1 && x.size(1) % groups == 0, "group_norm: ", x.size(1),
        " channels do not divide into groups: ", groups);
  return GroupNorm::apply(x, gamma, beta, groups, eps);
}

Tensor composite::group_norm(const Tensor& x, int64_t groups, const Tensor& gamma, const Tensor& beta,
                             double eps) {
  Shape per_channel = Dims::filled(x.rank(), 1);
  per_channel[1] = x.size(1);
  const Shape rows{x.size(0), groups, x.numel() == 0 ? 0 : x.numel() / (x.size(0) * groups)};
  auto wide = [&](const Tensor& values, const Tensor& scale, const Tensor& shift) {
    Tensor in_groups = values.reshape(rows);
    Tensor centred = in_groups - mean(in_groups, {-1}, true);
    Tensor y = (centred * rsqrt(mean(square(centred), {-1}, true) + eps)).reshape(x.shape());
    if (scale.defined()) y = y * scale.reshape(per_channel);
    return shift.defined() ? y + shift.reshape(per_channel) : y;
  };
  return in_f32(wide, x, gamma, beta);
}

}  // namespace reprise
