// Convolution on the CPU, and the shapes of convolutions anywhere.
#include "reprise/kernels/conv/conv2d.h"

#include <algorithm>

#include "reprise/kernels/conv/conv2d_add_dweight.h"
#include "reprise/kernels/conv/conv2d_by_gemm.h"
#include "reprise/kernels/conv/implicit_gemm.h"
#include "reprise/kernels/gemm/backend.h"

namespace reprise::kernels {
namespace {

using namespace conv2d_detail;

void check_sizes(Size2 size, int64_t smallest, const char* what) {
  constexpr int64_t largest = (int64_t(1) << 31) - 1;  // so that sums and products with an image's sizes fit
  check(std::min(size.height, size.width) >= smallest && std::max(size.height, size.width) <= largest,
        "conv2d: ", what, " must be in [", smallest, ", ", largest, "], got (", size.height, ", ", size.width,
        ")");
}

/// Whether products read windows where they lie; a BLAS needs them written out.
bool in_place(const TensorView& x, const TensorView& weight, const Conv2dOptions& options) {
  return gemm_backend() == GemmBackend::own && suits_implicit(x.shape, weight.shape, options);
}

void conv2d_cpu(const Stream& stream, const Conv2dArguments& arguments) {
  check_conv2d(arguments);
  const auto& [x, weight, bias, options, y] = arguments;
  in_place(x, weight, options) ? conv2d_implicit(stream, arguments) : conv2d_by_gemm(stream, arguments);
}
void conv2d_dx_cpu(const Stream& stream, const Conv2dDxArguments& arguments) {
  check_conv2d_dx(arguments);
  const auto& [dy, weight, bias, options, dx] = arguments;
  in_place(dx, weight, options) ? conv2d_dx_implicit(stream, arguments)
                                : conv2d_dx_by_gemm(stream, arguments);
}
void dweight_on_cpu(const Stream& stream, const Conv2dDweightArguments& arguments, Before before) {
  const auto& [dy, x, options, dweight] = arguments;
  in_place(x, dweight, options) ? conv2d_dweight_implicit(stream, arguments, before)
                                : conv2d_dweight_by_gemm(stream, arguments, before);
}
void conv2d_dweight_cpu(const Stream& stream, const Conv2dDweightArguments& arguments) {
  check_conv2d_dweight(arguments);
  dweight_on_cpu(stream, arguments, Before::overwritten);
}
void conv2d_add_dweight_cpu(const Stream& stream, const Conv2dDweightArguments& arguments) {
  check_conv2d_add_dweight(arguments);
  dweight_on_cpu(stream, arguments, Before::added_to);
}

}  // namespace

Shape conv2d_shape(const Shape& x, const Shape& weight, const Conv2dOptions& options) {
  check(x.size() == 4 && weight.size() == 4,
        "conv2d: needs images (N, C, H, W) and a weight (O, C/G, P, Q), got ", x, " and ", weight);
  check_sizes(options.stride, 1, "stride");
  check_sizes(options.dilation, 1, "dilation");
  check_sizes(options.padding, 0, "padding");
  check_sizes({weight[2], weight[3]}, 1, "the kernel's size");
  check(options.groups >= 1 && x[1] % options.groups == 0 && x[1] / options.groups == weight[1] &&
            weight[0] % options.groups == 0,
        "conv2d: channels of x ", x, " and weight ", weight, " do not fit ", options.groups, " groups");
  const Windows windows{{weight[2], weight[3]}, options.stride, options.padding, options.dilation};
  numel_of(x, "conv2d");
  numel_of(weight, "conv2d");
  const Size2 count = windows.count(x[2], x[3]);
  check(count.height >= 1 && count.width >= 1, "conv2d: images ", x, " are smaller than the kernel of ",
        weight);
  const Shape result{x[0], weight[0], count.height, count.width};
  numel_of(result, "conv2d");
  numel_of({x[0], count.height, count.width, x[1], weight[2], weight[3]}, "conv2d");  // unfolded
  return result;
}

decltype(conv2d) conv2d{"conv2d", conv2d_cpu};
decltype(conv2d_dx) conv2d_dx{"conv2d_dx", conv2d_dx_cpu};
decltype(conv2d_dweight) conv2d_dweight{"conv2d_dweight", conv2d_dweight_cpu};
decltype(conv2d_add_dweight) conv2d_add_dweight{"conv2d_add_dweight", conv2d_add_dweight_cpu};

}  // namespace reprise::kernels
