// Initial values for parameters.
#pragma once

#include "reprise/core/random.h"
#include "reprise/core/tensor.h"

namespace reprise::nn {

/// A tensor of normal values with mean 0.
Tensor normal_init(const Shape& shape, double stddev, Device device = {}, Generator* generator = nullptr);

/// Uniform in +-bound.
Tensor uniform_init(const Shape& shape, double bound, Device device = {}, Generator* generator = nullptr);

/// Uniform in +-1 / sqrt(fan_in), fan_in being the inputs of one output: PyTorch's default for linear layers
/// (He et al. 2015 with a = sqrt(5)).
Tensor linear_init(const Shape& shape, int64_t fan_in, Device device = {}, Generator* generator = nullptr);

}  // namespace reprise::nn
