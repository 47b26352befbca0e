// Checks of what layer norm and RMS norm take.
#include "reprise/kernels/norm/norm.h"

#include "reprise/kernels/row_checks.h"

namespace reprise::kernels {
namespace {

void check_like(const char* op, std::string_view name, const TensorView& view, const TensorView& x) {
  check(view.shape == x.shape, op, ": ", name, " has shape ", view.shape, ", should have ", x.shape);
  check_arithmetic(op, name, view, x);
  check_rows(op, name, view);
}

void check_statistics(const char* op, const TensorView& x, const TensorView& mean, const TensorView& rstd) {
  const DType dtype = x.dtype == DType::f64 ? DType::f64 : DType::f32;
  check_statistic(op, "mean", mean, x, dtype);
  check_statistic(op, "rstd", rstd, x, dtype);
}

void check_floating(const char* op, const TensorView& x) {
  check(is_floating(x.dtype), op, ": needs a floating dtype, got ", x.dtype);
}

}  // namespace

const char* check_norm(const NormArguments& v, bool centred) {
  const bool adds = v.residual || v.sum;
  const char* op = centred ? (adds ? "add_layer_norm" : "layer_norm") : (adds ? "add_rms_norm" : "rms_norm");
  check(centred || (!v.mean && !v.beta), op, ": has no mean and no beta");
  check_rows(op, "x", v.x);
  check_floating(op, v.x);
  check_like(op, "y", v.y, v.x);
  check(bool(v.residual) == bool(v.sum), op, ": residual and sum go together");
  if (v.residual) check_like(op, "residual", v.residual, v.x);
  if (v.sum) check_like(op, "sum", v.sum, v.x);
  check_parameter(op, "gamma", v.gamma, v.x.size(-1));
  check_parameter(op, "beta", v.beta, v.x.size(-1));
  check_statistics(op, v.x, v.mean, v.rstd);
  return op;
}

void check_norm_backward(const char* op, const NormBackwardArguments& v, bool centred) {
  check(centred || (!v.mean && !v.dbeta), op, ": has no mean and no beta");
  check_rows(op, "x", v.x);
  check_floating(op, v.x);
  check_like(op, "dy", v.dy, v.x);
  if (v.dx) check_like(op, "dx", v.dx, v.x);
  if (v.addend) {
    check_like(op, "addend", v.addend, v.x);
    check(v.x.numel() == 0 || (v.dx && v.addend.dtype == v.dx.dtype), op, ": addend is ", v.addend.dtype,
          ", dx is ", v.dx ? std::string(name_of(v.dx.dtype)) : "absent");
  }
  check_parameter(op, "gamma", v.gamma, v.x.size(-1));
  check_parameter(op, "dgamma", v.dgamma, v.x.size(-1));
  check_parameter(op, "dbeta", v.dbeta, v.x.size(-1));
  check(v.x.numel() == 0 || (v.rstd && (v.mean || !centred)), op, ": needs the ", centred ? "mean and " : "",
        "rstd of the forward pass");
  check_statistics(op, v.x, v.mean, v.rstd);
}

}  // namespace reprise::kernels
