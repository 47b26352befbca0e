// Initial values for parameters.
#include "reprise/nn/init.h"

#include <cmath>

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

}  // namespace reprise::nn
