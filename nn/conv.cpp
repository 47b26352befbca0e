// Convolutional layers: their parameters.
#include "reprise/nn/conv.h"

#include "reprise/nn/init.h"

namespace reprise::nn {
namespace {

void check_sizes(const char* layer, int64_t in, int64_t out, Size2 kernel) {
  check(in >= 1 && out >= 1 && kernel.height >= 1 && kernel.width >= 1, layer,
        ": sizes must be positive, got channels ", in, " and ", out, ", kernel (", kernel.height, ", ",
        kernel.width, ")");
}

}  // namespace

Conv2d::Conv2d(int64_t in, int64_t out, Size2 kernel, const Conv2dLayerOptions& options, Device device)
    : window_{options.stride, options.padding, options.dilation, options.groups} {
  check_sizes("Conv2d", in, out, kernel);
  check(options.groups >= 1 && in % options.groups == 0 && out % options.groups == 0, "Conv2d: ", in, " and ",
        out, " channels do not divide into ", options.groups, " groups");
  const int64_t fan_in = in / options.groups * kernel.height * kernel.width;
  weight = register_parameter(
      "weight", linear_init({out, in / options.groups, kernel.height, kernel.width}, fan_in, device));
  if (options.bias) bias = register_parameter("bias", linear_init({out}, fan_in, device));
}

std::string Conv2d::extra_repr() const {
  return OptionText()
      .add_unless(1, "stride", window_.stride)
      .add_unless(0, "padding", window_.padding)
      .add_unless(1, "dilation", window_.dilation)
      .add_unless<int64_t>(1, "groups", window_.groups)
      .str();
}

ConvTranspose2d::ConvTranspose2d(int64_t in, int64_t out, Size2 kernel,
                                 const ConvTranspose2dLayerOptions& options, Device device)
    : stride_(options.stride) {
  check_sizes("ConvTranspose2d", in, out, kernel);
  // PyTorch reads the transposed weight as if it were Conv2d's.
  const int64_t fan_in = out * kernel.height * kernel.width;
  weight = register_parameter("weight", linear_init({in, out, kernel.height, kernel.width}, fan_in, device));
  if (options.bias) bias = register_parameter("bias", linear_init({out}, fan_in, device));
}

}  // namespace reprise::nn
