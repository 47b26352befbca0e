// Batch normalisation as a layer: its state and the checks of its input.
#include "reprise/nn/batch_norm.h"

namespace reprise::nn {

BatchNorm::BatchNorm(const Inputs& inputs, int64_t channels, const BatchNormLayerOptions& options,
                     Device device)
    : inputs_(inputs), channels_(channels), options_(options) {
  check(channels >= 1, inputs.name, ": the number of channels must be positive, got ", channels);
  check(options.track_running_stats || options.momentum == BatchNormLayerOptions().momentum, inputs.name,
        ": momentum ", options.momentum.value_or(0), " has no effect without track_running_stats");
  if (options.affine) {
    weight = register_parameter("weight", ones({channels}, DType::f32, device));
    bias = register_parameter("bias", zeros({channels}, DType::f32, device));
  }
  if (!options.track_running_stats) return;
  running_mean = register_buffer("running_mean", zeros({channels}, DType::f32, device));
  running_var = register_buffer("running_var", ones({channels}, DType::f32, device));
  num_batches_tracked = register_buffer("num_batches_tracked", zeros({}, DType::i64, device));
}

Tensor BatchNorm::forward(const Tensor& x, const BatchNormEpilogue& fused) {
  if (!is_changed()) return normed(x, fused);
  const Tensor y = (*this)(x);
  return activate(fused.residual.defined() ? y + fused.residual : y, fused.activation);
}

Tensor BatchNorm::normed(const Tensor& x, const BatchNormEpilogue& fused) {
  check(x.rank() >= inputs_.least_rank && x.rank() <= inputs_.most_rank, inputs_.name, ": needs ",
        inputs_.form, ", got shape ", x.shape());
  check(x.size(1) == channels_, inputs_.name, ": has ", channels_, " channels, got shape ", x.shape());
  return batch_norm(x, weight, bias, running_mean, running_var,
                    {.training = training(),
                     .momentum = options_.momentum,
                     .eps = options_.eps,
                     .batches = num_batches_tracked,
                     .epilogue = fused});
}

std::string BatchNorm::extra_repr() const {
  const BatchNormLayerOptions usual;
  OptionText text;
  text.add_unless(usual.eps, "eps", options_.eps);
  if (!options_.momentum) text.add("momentum", "none");
  text.add_unless(*usual.momentum, "momentum", options_.momentum.value_or(*usual.momentum));
  return text.add_unless(true, "track_running_stats", options_.track_running_stats).str();
}

}  // namespace reprise::nn
