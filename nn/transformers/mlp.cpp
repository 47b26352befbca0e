#include "reprise/nn/transformers/mlp.h"

#include "reprise/nn/init.h"

namespace reprise::nn {

int64_t default_hidden(int64_t width, bool gated) {
  return gated ? (width * 8 / 3 + 63) / 64 * 64 : 4 * width;
}

Mlp::Mlp(int64_t width, int64_t hidden, const MlpOptions& options, Device device)
    : fc1(width, hidden, {.bias = options.bias, .init_stddev = options.init_stddev}, device),
      fc2(hidden, width,
          {.bias = options.bias, .init_stddev = residual_stddev(options.init_stddev, options.output_stddev)},
          device),
      activation_(options.activation) {
  if (options.gated) {
    fc1_g.emplace(width, hidden, LinearOptions{.bias = options.bias, .init_stddev = options.init_stddev},
                  device);
    register_module("fc1_g", *fc1_g);
  }
  register_module(options.gated ? "fc1_x" : "fc1", fc1);
  register_module("fc2", fc2);
}

Tensor Mlp::operator()(const Tensor& x, const LinearEpilogue& end) const {
  return is_changed() ? apply_epilogue((*this)(x), end) : fused(x, end);
}

Tensor Mlp::fused(const Tensor& x, const LinearEpilogue& end) const {
  if (fc1_g) {
    const bool swish = activation_ == Activation::silu;
    const Tensor gate = fc1_g->forward(x, {.activation = swish ? Activation::none : activation_});
    return fc2.forward(swish ? swiglu(gate, fc1(x)) : gate * fc1(x), end);
  }
  if (fc1.is_changed() || fc2.is_changed())
    return fc2.forward(fc1.forward(x, {.activation = activation_}), end);
  return mlp(x, fc1.weight, fc1.bias, fc2.weight, fc2.bias, activation_, end);
}

}  // namespace reprise::nn
