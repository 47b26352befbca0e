// Initial values for parameters.
#pragma once

#include "reprise/core/random.h"
#include "reprise/core/tensor.h"

namespace reprise::nn {

/// The deviation of the weights of GPT-2 and of the transformers after it (Radford et al. 2019).
inline constexpr double transformer_stddev = 0.02;

/// A tensor of normal values with mean 0.
Tensor normal_init(const Shape& shape, double stddev, Device device = {}, Generator* generator = nullptr);

/// Uniform in +-bound.
Tensor uniform_init(const Shape& shape, double bound, Device device = {}, Generator* generator = nullptr);

/// Uniform in +-1 / sqrt(fan_in), fan_in being the inputs of one output: PyTorch's default for linear layers
/// (He et al. 2015 with a = sqrt(5)).
Tensor linear_init(const Shape& shape, int64_t fan_in, Device device = {}, Generator* generator = nullptr);

/// Inputs and outputs of one position of a weight (out, in) or (out, in, kernel...): the other dimensions
/// count into both. Error for fewer than two dimensions.
struct Fans {
  int64_t in = 0;   ///< inputs of one output: shape[1] times the sizes of the kernel
  int64_t out = 0;  ///< outputs of one input: shape[0] times the sizes of the kernel
};
/// The fans of a weight's shape.
Fans fans_of(const Shape& shape);

/// Normal values of variance 2 / fan_out, which keeps that of gradients through ReLU (He et al. 2015): ResNet's.
Tensor kaiming_init(const Shape& shape, Device device = {}, Generator* generator = nullptr);

/// Uniform values of variance 2 / (fan_in + fan_out) (Glorot and Bengio 2010).
Tensor xavier_init(const Shape& shape, Device device = {}, Generator* generator = nullptr);

/// Normal values cut off at two of their deviations, of variance 1 / fan_in after that (LeCun et al. 1998).
Tensor lecun_init(const Shape& shape, Device device = {}, Generator* generator = nullptr);

/// The deviation of a layer that writes to the residual stream: `output_stddev`, or `init_stddev` where that is 0. Error if it is
/// negative.
double residual_stddev(double init_stddev, double output_stddev);

}  // namespace reprise::nn
