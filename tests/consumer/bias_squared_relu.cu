// The kernels on CUDA: nvcc compiles them for a GPU, a C++ compiler for the emulator.
#include "bias_squared_relu.h"

#include <reprise/simt/simt.h>

namespace {

constexpr int block = 256;

// y = max(x + bias, 0)^2. Bytes moved: x and y once; bias is in the cache.
template <class T>
__global__ void forward_kernel(const T* x, const T* bias, T* y, int64_t n, int64_t channels) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = squared_relu(x[i] + bias[i % channels]);
}

// dx = 2 max(x + bias, 0) dy. Bytes moved: dy, x and dx once.
template <class T>
__global__ void backward_kernel(const T* dy, const T* x, const T* bias, T* dx, int64_t n, int64_t channels) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) dx[i] = squared_relu_slope(x[i] + bias[i % channels]) * dy[i];
}

unsigned blocks_of(int64_t n) { return unsigned((n + block - 1) / block); }

void forward_cuda(const reprise::Stream& stream, const BiasSquaredReluArguments& v) {
  constexpr auto op = "bias_squared_relu";
  check_bias_squared_relu(op, v.x, v.bias, v.y);
  const int64_t n = v.x.numel(), channels = v.bias.numel();
  if (n == 0) return;
  dispatch_real(v.x.dtype, [&]<class T>() {
    reprise::simt::launch({.name = op, .grid = blocks_of(n), .block = block, .stream = stream},
                          forward_kernel<T>, v.x.as<T>(), v.bias.as<T>(), v.y.as<T>(), n, channels);
  });
}

void backward_cuda(const reprise::Stream& stream, const BiasSquaredReluBackwardArguments& v) {
  constexpr auto op = "bias_squared_relu_backward";
  check_bias_squared_relu(op, v.x, v.bias, v.dx);
  const int64_t n = v.x.numel(), channels = v.bias.numel();
  if (n == 0) return;
  dispatch_real(v.x.dtype, [&]<class T>() {
    reprise::simt::launch({.name = op, .grid = blocks_of(n), .block = block, .stream = stream},
                          backward_kernel<T>, v.dy.as<T>(), v.x.as<T>(), v.bias.as<T>(), v.dx.as<T>(), n,
                          channels);
  });
}

const reprise::kernels::OnCuda forward_on_cuda{bias_squared_relu_kernel, forward_cuda};
const reprise::kernels::OnCuda backward_on_cuda{bias_squared_relu_backward_kernel, backward_cuda};

}  // namespace
