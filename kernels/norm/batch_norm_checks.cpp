// Checks of the views that batch normalisation takes.
#include "reprise/kernels/norm/batch_norm_checks.h"

namespace reprise::kernels {
namespace {

void check_like(const char* op, std::string_view name, const TensorView& view, const TensorView& x) {
  if (view) check_contiguous(op, name, view, x);
}

void check_written(const char* op, std::string_view name, const TensorView& view, int64_t channels) {
  check_view(op, name, view, {channels}, DType::f64);
  check(view.is_contiguous(), op, ": ", name, " needs to be contiguous, has strides ", view.strides);
}

void check_parameters(const char* op,
                      std::initializer_list<std::pair<const char*, const TensorView*>> parameters,
                      int64_t channels) {
  for (auto [name, view] : parameters) check_parameter(op, name, *view, channels);
}

ChannelShape checked_shape(const char* op, const TensorView& x) {
  check(x.rank() >= 2, op, ": needs (N, C, ...), got shape ", x.shape);
  check(is_floating(x.dtype), op, ": needs a floating dtype, got ", x.dtype);
  check_like(op, "x", x, x);
  ChannelShape shape = {x.shape[0], x.shape[1], 1};
  for (int dim = 2; dim < x.rank(); ++dim) shape.spatial *= x.shape[dim];
  return shape;
}

}  // namespace

ChannelShape check_batch_norm(const char* op, const BatchNormArguments& v, bool written) {
  const ChannelShape shape = checked_shape(op, v.x);
  check_like(op, "residual", v.residual, v.x);
  check_like(op, "y", v.y, v.x);
  check(v.activation == Activation::none || v.activation == Activation::relu, op,
        ": the activation needs to be none or relu, is number ", int(v.activation));
  check_parameters(op, {{"gamma", &v.gamma}, {"beta", &v.beta}}, shape.channels);
  if (shape.channels == 0) return shape;
  check(v.mean && v.variance, op, ": needs mean and variance");
  if (written) {
    check_written(op, "mean", v.mean, shape.channels);
    check_written(op, "variance", v.variance, shape.channels);
  } else {
    check_parameters(op, {{"mean", &v.mean}, {"variance", &v.variance}}, shape.channels);
  }
  return shape;
}

ChannelShape check_batch_norm_backward(const BatchNormBackwardArguments& v) {
  constexpr auto op = "batch_norm_backward";
  const ChannelShape shape = checked_shape(op, v.x);
  check_like(op, "dy", v.dy, v.x);
  check_like(op, "y", v.y, v.x);
  check_like(op, "dx", v.dx, v.x);
  check_like(op, "dresidual", v.dresidual, v.x);
  check_parameters(op, {{"gamma", &v.gamma}, {"dgamma", &v.dgamma}, {"dbeta", &v.dbeta}}, shape.channels);
  if (shape.channels == 0) return shape;
  check(v.mean && v.variance, op, ": needs mean and variance");
  check_parameters(op, {{"mean", &v.mean}, {"variance", &v.variance}}, shape.channels);
  return shape;
}

void check_running_statistics(const RunningStatisticsArguments& v, int64_t count,
                              std::optional<double> momentum) {
  constexpr auto op = "update_running_statistics";
  const int64_t channels = v.mean.numel();
  check(count > 1, op, ": needs more than 1 value a channel, got ", count);
  check(momentum || v.batches, op, ": needs a momentum or the number of batches");
  check(!v.batches || (v.batches.numel() == 1 && v.batches.dtype == DType::i64), op,
        ": batches needs to be one i64, is ", v.batches.dtype, v.batches.shape);
  if (channels == 0) return;
  check_written(op, "mean", v.mean, channels);
  check_written(op, "variance", v.variance, channels);
  check(v.running_mean && v.running_variance, op, ": running mean and variance go together");
  check_parameters(op, {{"running_mean", &v.running_mean}, {"running_variance", &v.running_variance}},
                   channels);
}

}  // namespace reprise::kernels
