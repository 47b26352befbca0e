// y = max(x + bias, 0)^2 over rows, in one pass (So et al. 2021): a fused operation of a user's own, for both devices.
#pragma once

#include <reprise/kernels/kernel.h>

// x, y (N, C) with rows one after another; bias (C). All of one dtype, f32 or f64. Forward reads x and writes y.
struct BiasSquaredReluArguments {
  reprise::TensorView x, bias, y;
};
// dx = 2 max(x + bias, 0) dy. Reads dy and x, writes dx. The gradient of the bias is the sum of dx over rows.
struct BiasSquaredReluBackwardArguments {
  reprise::TensorView dy, x, bias, dx;
};

extern reprise::kernels::Kernel<void(const BiasSquaredReluArguments&)> bias_squared_relu_kernel;
extern reprise::kernels::Kernel<void(const BiasSquaredReluBackwardArguments&)>
    bias_squared_relu_backward_kernel;

// The formulas, which g++ and nvcc compile alike.
template <class T>
constexpr T squared_relu(T z) {
  return z > T(0) ? z * z : T(0);
}
template <class T>
constexpr T squared_relu_slope(T z) {
  return z > T(0) ? T(2) * z : T(0);
}

// Error unless the views are as above: bad input never reaches a kernel.
void check_bias_squared_relu(const char* op, const reprise::TensorView& x, const reprise::TensorView& bias,
                             const reprise::TensorView& y);

// run.operator()<T>() for the C++ type of such a dtype.
void dispatch_real(reprise::DType dtype, const auto& run) {
  if (dtype == reprise::DType::f64)
    run.template operator()<double>();
  else
    run.template operator()<float>();
}
