// Checks of the views that batch normalisation takes.
#include "reprise/kernels/norm/batch_norm_checks.h"

namespace reprise::kernels {
namespace {

void check_like(const char* op, std::string_view name, const TensorView& view, const TensorView& x) {
  if (!view) return;
  check_view(op, name, view, x.shape, x.dtype);
  check(view.is_contiguous(), op, ": ", name, " needs to be contiguous, has strides ", view.strides);
}

void check_written(const char* op, std::string_view name, const TensorView& view, int64_t channels) {
  check_view(op, name, view, {channels}, DType::f64);
  check(view.is_contiguous(), op, ": ", name, " needs to be contiguous, has strides ", view.strides);
}

}  // namespace

ChannelShape check_batch_norm(const char* op, const BatchNormViews& v, bool written) {
  check(v.x.rank() >= 2, op, ": needs (N, C, ...), got shape ", v.x.shape);
  check(is_floating(v.x.dtype), op, ": needs a floating dtype, got ", v.x.dtype);
  ChannelShape shape = {v.x.shape[0], v.x.shape[1], 1};
  for (int dim = 2; dim < v.x.rank(); ++dim) shape.spatial *= v.x.shape[dim];
  check_like(op, "x", v.x, v.x);
  check_like(op, "y", v.y, v.x);
  check_like(op, "dy", v.dy, v.x);
  check_like(op, "dx", v.dx, v.x);
  check_parameter(op, "gamma", v.gamma, shape.channels);
  check_parameter(op, "beta", v.beta, shape.channels);
  check_parameter(op, "dgamma", v.dgamma, shape.channels);
  check_parameter(op, "dbeta", v.dbeta, shape.channels);
  if (shape.channels == 0) return shape;
  check(v.mean && v.variance, op, ": needs mean and variance");
  if (written) {
    check_written(op, "mean", v.mean, shape.channels);
    check_written(op, "variance", v.variance, shape.channels);
  } else {
    check_parameter(op, "mean", v.mean, shape.channels);
    check_parameter(op, "variance", v.variance, shape.channels);
  }
  return shape;
}

void check_running_statistics(const TensorView& mean, const TensorView& variance, int64_t count,
                              std::optional<double> momentum, const TensorView& running_mean,
                              const TensorView& running_variance, const TensorView& batches) {
  constexpr auto op = "update_running_statistics";
  const int64_t channels = mean.numel();
  check(count > 1, op, ": needs more than 1 value a channel, got ", count);
  check(momentum || batches, op, ": needs a momentum or the number of batches");
  check(!batches || (batches.numel() == 1 && batches.dtype == DType::i64), op,
        ": batches needs to be one i64, is ", batches.dtype, batches.shape);
  if (channels == 0) return;
  check_written(op, "mean", mean, channels);
  check_written(op, "variance", variance, channels);
  check(running_mean && running_variance, op, ": running mean and variance go together");
  check_parameter(op, "running_mean", running_mean, channels);
  check_parameter(op, "running_variance", running_variance, channels);
}

}  // namespace reprise::kernels
