// Fully connected layer: its parameters.
#include "reprise/nn/linear.h"

#include "reprise/nn/init.h"

namespace reprise::nn {

Linear::Linear(int64_t in, int64_t out, const LinearOptions& options, Device device) {
  check(in >= 1 && out >= 1, "Linear: sizes must be positive, got ", in, " and ", out);
  check(options.init_stddev >= 0, "Linear: init_stddev must be at least 0, got ", options.init_stddev);
  bool normal = options.init_stddev > 0;
  weight = register_parameter("weight", normal ? normal_init({out, in}, options.init_stddev, device)
                                               : linear_init({out, in}, in, device));
  if (options.bias)
    bias = register_parameter("bias",
                              normal ? zeros({out}, DType::f32, device) : linear_init({out}, in, device));
}

Tensor Linear::forward(const Tensor& x, const LinearEpilogue& fused) {
  if (!is_changed()) return linear(x, weight, bias, fused);
  Tensor y = activate((*this)(x), fused.activation);
  if (fused.scale.defined()) y = y * fused.scale;
  if (fused.row_scale.defined()) {
    Shape of_samples = Dims::filled(y.rank(), 1);
    of_samples[0] = y.size(0);
    y = y * reshape(fused.row_scale, of_samples);
  }
  if (fused.residual.defined()) y = y + fused.residual;
  return fused.out && y.dtype() != *fused.out ? cast(y, *fused.out) : y;
}

}  // namespace reprise::nn
