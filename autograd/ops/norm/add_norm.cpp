// A residual sum and its normalisation as one operation: the sum is read once less. Bits and what is kept for
// backward, the sum and one or two numbers per row, are those of the two operations. Under autocast x, residual, sum and
// norm have dtypes of their own, in the same pass.
#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/norm/addend.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/result_dtype.h"
#include "reprise/autograd/ops/wide.h"
#include "reprise/kernels/elementwise/elementwise.h"
#include "reprise/kernels/norm/layer_norm.h"
#include "reprise/kernels/norm/rms_norm.h"

namespace reprise {
namespace {

using namespace autograd;

/// Derived has `name`, `centred`, the kernels `norm` and `norm_backward`, and `composite`.
template <class Derived>
struct AddNorm : Function<Derived> {
  static constexpr auto autocast = amp::Policy::widest;
  static constexpr uint32_t autocast_keeps = 0b1111;  // the kernel reads what there is
  static constexpr OpCost cost = OpCost::pointwise();
  double eps_ = 0;

  /// {x + residual, norm(x + residual)}
  TensorList forward(const Tensor& x, const Tensor& residual, const Tensor& gamma, const Tensor& beta,
                     double eps, DType out) {
    constexpr auto op = Derived::name;
    check(x.rank() >= 1, op, ": needs at least one dimension");
    const bool mixes =
        this->under_autocast() && (x.dtype() == DType::f64) == (residual.dtype() == DType::f64);
    check(residual.shape() == x.shape() && (mixes || residual.dtype() == x.dtype()), op, ": residual ",
          residual.dtype(), residual.shape(), " does not fit x ", x.dtype(), x.shape());
    if (!this->under_autocast()) check_dtype(x, gamma, op), check_dtype(x, beta, op);
    eps_ = eps;
    Tensor sum = Tensor::empty(x.shape(), promote(x.dtype(), residual.dtype()), x.device()), mean, rstd;
    Tensor y = Tensor::empty(x.shape(), out, x.device());
    if (this->recording()) {
      if (Derived::centred) mean = Tensor::empty(rows_shape(x), statistics_dtype(x), x.device());
      rstd = Tensor::empty(rows_shape(x), statistics_dtype(x), x.device());
    }
    // Kernels tell a view that is absent by its memory, which empty ones have none of.
    if (x.numel() > 0)
      Derived::norm(current_stream(x.device()), {.x = unit_stride(x).view(),
                                                 .residual = unit_stride(residual).view(),
                                                 .gamma = optional_view(gamma),
                                                 .beta = optional_view(beta),
                                                 .eps = eps,
                                                 .sum = sum,
                                                 .y = y,
                                                 .mean = optional_view(mean),
                                                 .rstd = optional_view(rstd)});
    this->save(sum, gamma, beta, mean, rstd);
    return {sum, y};
  }

  TensorList backward(const TensorList& d) {
    Tensor sum = this->saved(0), gamma = this->saved(1), beta = this->saved(2);
    if (grad_mode_enabled()) {
      auto same = [&](const TensorList& in) {
        return TensorList{cast(Derived::composite(widened(in[0]), in[1], in[2], eps_), d[1].dtype())};
      };
      TensorList grads = composite_backward(same, {sum, gamma, beta}, {d[1]});
      Tensor dsum = d[0] + grads[0];
      return {dsum, dsum, grads[1], grads[2]};
    }
    const Stream stream = current_stream(sum.device());
    Tensor dsum, addend, dgamma, dbeta;
    if (this->needs_grad(0) || this->needs_grad(1)) dsum = raw_empty_like(sum), addend = fitting_addend(d[0]);
    if (this->needs_grad(2)) dgamma = raw_empty_like(gamma);
    if (this->needs_grad(3)) dbeta = raw_empty_like(beta);
    Derived::norm_backward(stream, {.dy = unit_stride(d[1]).view(),
                                    .x = unit_stride(sum).view(),
                                    .gamma = optional_view(gamma),
                                    .mean = optional_view(this->saved(3)),
                                    .rstd = this->saved(4).view(),
                                    .dx = optional_view(dsum),
                                    .addend = optional_view(addend),
                                    .dgamma = optional_view(dgamma),
                                    .dbeta = optional_view(dbeta)});
    return {dsum, dsum, dgamma, dbeta};
  }
};

struct AddLayerNorm : AddNorm<AddLayerNorm> {
  static constexpr const char* name = "add_layer_norm";
  static constexpr bool centred = true;
  static constexpr auto& norm = kernels::layer_norm;
  static constexpr auto& norm_backward = kernels::layer_norm_backward;
  static Tensor composite(const Tensor& sum, const Tensor& gamma, const Tensor& beta, double eps) {
    return composite::layer_norm(sum, gamma, beta, eps);
  }
};

struct AddRmsNorm : AddNorm<AddRmsNorm> {
  static constexpr const char* name = "add_rms_norm";
  static constexpr bool centred = false;
  static constexpr auto& norm = kernels::rms_norm;
  static constexpr auto& norm_backward = kernels::rms_norm_backward;
  static Tensor composite(const Tensor& sum, const Tensor& gamma, const Tensor&, double eps) {
    return composite::rms_norm(sum, gamma, eps);
  }
};

template <class Op>
SumAndNorm add_norm(const Tensor& x, const Tensor& residual, const Tensor& gamma, const Tensor& beta,
                    double eps, const ResultOptions& result) {
  check_given(Op::name, x, residual);
  const DType out = norm_dtype(Op::name, x, residual, result);
  TensorList outputs = Op::apply(x, residual, gamma, beta, eps, out);
  return {std::move(outputs[0]), std::move(outputs[1])};
}

}  // namespace

SumAndNorm add_layer_norm(const Tensor& x, const Tensor& residual, const Tensor& gamma, const Tensor& beta,
                          double eps, const ResultOptions& result) {
  return add_norm<AddLayerNorm>(x, residual, gamma, beta, eps, result);
}

SumAndNorm add_rms_norm(const Tensor& x, const Tensor& residual, const Tensor& gamma, double eps,
                        const ResultOptions& result) {
  return add_norm<AddRmsNorm>(x, residual, gamma, Tensor(), eps, result);
}

}  // namespace reprise
