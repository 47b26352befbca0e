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

Tensor Linear::forward(const Tensor& x, const LinearEpilogue& fused) const {
  return is_changed() ? apply_epilogue((*this)(x), fused) : linear(x, weight, bias, fused);
}

Tensor apply_epilogue(const Tensor& product, const LinearEpilogue& end) {
  Tensor y = activate(product, end.activation);
  if (end.scale.defined()) y = y * end.scale;
  if (end.row_scale.defined()) {
    Shape of_samples = Dims::filled(y.rank(), 1);
    of_samples[0] = y.size(0);
    y = y * reshape(end.row_scale, of_samples);
  }
  if (end.residual.defined()) y = y + end.residual;
  return end.out && y.dtype() != *end.out ? cast(y, *end.out) : y;
}

}  // namespace reprise::nn
