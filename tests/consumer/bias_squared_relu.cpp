// The kernels on the CPU.
#include "bias_squared_relu.h"

#include <reprise/core/parallel.h>

namespace {

constexpr int64_t piece = 4096;  // numbers of one task

void forward_cpu(const reprise::Stream&, const BiasSquaredReluArguments& v) {
  check_bias_squared_relu("bias_squared_relu", v.x, v.bias, v.y);
  dispatch_real(v.x.dtype, [&]<class T>() {
    const T *x = v.x.as<T>(), *bias = v.bias.as<T>();
    T* y = v.y.as<T>();
    const int64_t channels = v.bias.numel();
    reprise::parallel_for(v.x.numel(), piece, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = squared_relu(x[i] + bias[i % channels]);
    });
  });
}

void backward_cpu(const reprise::Stream&, const BiasSquaredReluBackwardArguments& v) {
  check_bias_squared_relu("bias_squared_relu_backward", v.x, v.bias, v.dx);
  dispatch_real(v.x.dtype, [&]<class T>() {
    const T *dy = v.dy.as<T>(), *x = v.x.as<T>(), *bias = v.bias.as<T>();
    T* dx = v.dx.as<T>();
    const int64_t channels = v.bias.numel();
    reprise::parallel_for(v.x.numel(), piece, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) dx[i] = squared_relu_slope(x[i] + bias[i % channels]) * dy[i];
    });
  });
}

}  // namespace

reprise::kernels::Kernel<void(const BiasSquaredReluArguments&)> bias_squared_relu_kernel{"bias_squared_relu",
                                                                                         forward_cpu};
reprise::kernels::Kernel<void(const BiasSquaredReluBackwardArguments&)> bias_squared_relu_backward_kernel{
    "bias_squared_relu_backward", backward_cpu};

void check_bias_squared_relu(const char* op, const reprise::TensorView& x, const reprise::TensorView& bias,
                             const reprise::TensorView& y) {
  using reprise::check, reprise::DType;
  check(x.dtype == DType::f32 || x.dtype == DType::f64, op, ": takes f32 and f64, got ", x.dtype);
  check(x.shape == y.shape && x.dtype == y.dtype && x.dtype == bias.dtype, op, ": x ", x.dtype, x.shape,
        ", bias ", bias.dtype, bias.shape, " and the result ", y.dtype, y.shape, " do not fit");
  check(bias.shape.size() == 1 && !x.shape.empty() && x.shape.back() == bias.shape[0], op, ": x of shape ",
        x.shape, " needs a bias of its last dimension, got ", bias.shape);
  check(x.is_contiguous() && bias.is_contiguous() && y.is_contiguous(), op, ": rows lie one after another");
}
