// Initial values for parameters.
#include "reprise/nn/init.h"

#include <cmath>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/kernels/elementwise/random_fill.h"

namespace reprise::nn {

Tensor normal_init(const Shape& shape, double stddev, Device device, Generator* generator) {
  Tensor out = Tensor::empty(shape, DType::f32, device);
  auto [seed, offset] = (generator ? *generator : default_generator()).next();
  kernels::fill_normal(current_stream(device), out, 0, stddev, seed, offset);
  return out;
}

Tensor uniform_init(const Shape& shape, double bound, Device device, Generator* generator) {
  Tensor out = Tensor::empty(shape, DType::f32, device);
  auto [seed, offset] = (generator ? *generator : default_generator()).next();
  kernels::fill_uniform(current_stream(device), out, -bound, bound, seed, offset);
  return out;
}

Tensor linear_init(const Shape& shape, int64_t fan_in, Device device, Generator* generator) {
  return uniform_init(shape, fan_in > 0 ? 1 / std::sqrt(double(fan_in)) : 0, device, generator);
}

Fans fans_of(const Shape& shape) {
  check(shape.size() >= 2, "fans_of: a weight has at least two dimensions, got ", shape);
  int64_t window = 1;
  for (int i = 2; i < shape.size(); ++i) window *= shape[i];
  return {shape[1] * window, shape[0] * window};
}

Tensor kaiming_init(const Shape& shape, Device device, Generator* generator) {
  return normal_init(shape, std::sqrt(2 / double(fans_of(shape).out)), device, generator);
}

Tensor xavier_init(const Shape& shape, Device device, Generator* generator) {
  auto [in, out] = fans_of(shape);
  return uniform_init(shape, std::sqrt(6 / double(in + out)), device, generator);
}

Tensor lecun_init(const Shape& shape, Device device, Generator* generator) {
  // The deviation of a standard normal number that is cut off at 2: sqrt(1 - 4 phi(2) / (2 Phi(2) - 1)).
  constexpr double deviation_left = 0.87962566103423978;
  const double bound = 2, stddev = 1 / (std::sqrt(double(fans_of(shape).in)) * deviation_left);
  NoGrad guard;
  Tensor x = normal_init(shape, 1, device, generator), limit = scalar(bound, DType::f32, device);
  // One number in 22 is drawn again: a handful of rounds.
  while (x.numel() > 0 && max(abs(x)).item() > bound)
    x = where(greater(abs(x), limit), normal_init(shape, 1, device, generator), x);
  return x * stddev;
}

double residual_stddev(double init_stddev, double output_stddev) {
  check(output_stddev >= 0, "transformer: output_stddev must be at least 0, got ", output_stddev);
  return output_stddev > 0 ? output_stddev : init_stddev;
}

}  // namespace reprise::nn
