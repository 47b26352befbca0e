// Convolution as one operation: keeps x and the weight. Under autocast images of f32 that want no gradient are read as they are, and kept so.
#include "reprise/kernels/conv/conv2d.h"

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/conv/weight_gradient.h"
#include "reprise/autograd/ops/gemm/linear_kernels.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/wide.h"
#include "reprise/kernels/reduce/reduce.h"

namespace reprise {
namespace {

using namespace autograd;

void check_conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options,
                  Mixed mixed) {
  kernels::conv2d_shape(x.shape(), weight.shape(), options);
  check(may_stand_beside(x.dtype(), weight.dtype(), mixed), "conv2d: dtypes differ: ", x.dtype(), " and ",
        weight.dtype());
  check(!bias.defined() || may_stand_beside(bias.dtype(), weight.dtype(), mixed),
        "conv2d: dtypes differ: ", weight.dtype(), " and, of the bias, ",
        bias.defined() ? bias.dtype() : weight.dtype());
  check_floating("conv2d", x);
  check_device("conv2d", x, weight);
  check_device("conv2d", x, bias);
  check(!bias.defined() || bias.shape() == Shape{weight.size(0)}, "conv2d: bias is ",
        bias.defined() ? bias.shape() : Shape(), ", needs (", weight.size(0), ",)");
}

struct Conv2d : Function<Conv2d> {
  static constexpr const char* name = "conv2d";
  static constexpr auto autocast = amp::Policy::low;
  static constexpr uint32_t autocast_keeps = 0b101;  // x, which `conv2d` casts where that is better, and bias
  static constexpr OpCost cost = OpCost::product();
  Conv2dOptions options_;

  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options) {
    check_conv2d(x, weight, bias, options, under_autocast() ? Mixed::f32 : Mixed::none);
    options_ = options;
    Tensor y =
        Tensor::empty(kernels::conv2d_shape(x.shape(), weight.shape(), options), weight.dtype(), x.device());
    kernels::conv2d(current_stream(x.device()),
                    {.x = x.contiguous().view(),
                     .weight = weight.contiguous().view(),
                     .bias = bias.defined() ? bias.contiguous().view() : TensorView(),
                     .options = options,
                     .y = y});
    save(x, weight, bias);
    return y;
  }

  TensorList backward(const TensorList& dys) {
    Tensor x = saved(0), weight = saved(1), bias = saved(2);
    if (grad_mode_enabled()) {
      auto same = [&](const TensorList& in) {
        return TensorList{composite::conv2d(cast(in[0], in[1].dtype()), in[1], in[2], options_)};
      };
      return composite_backward(same, {x, weight, bias}, dys);
    }
    const Stream stream = current_stream(x.device());
    Tensor dy = dys[0].contiguous(), dx, dweight, dbias;
    if (needs_grad(0)) {
      dx = raw_empty_like(x);
      kernels::conv2d_dx(stream,
                         {.dy = dy, .weight = weight.contiguous().view(), .options = options_, .dx = dx});
    }
    if (needs_grad(1)) {
      MemoryScope memory = gradient_memory(1);
      dweight = conv_weight_gradient(dy, x.contiguous(), options_, weight, gradient_dtype(1, weight.dtype()),
                                     edges()[1]);
    }
    if (needs_grad(2)) {
      MemoryScope memory = gradient_memory(2);
      dbias = Tensor::empty(bias.shape(), gradient_dtype(2, bias.dtype()), bias.device());
      kernels::reduce(stream, kernels::ReduceOp::sum, dy, raw_reshape(dbias, {1, dy.size(1), 1, 1}).view());
    }
    return {dx, dweight, dbias};
  }
};

// Activations, which want a gradient, are cast before: what backward keeps of them has 16 bits then, where images are there anyway.
Tensor as_kept(const Tensor& x) {
  const bool casts = x.defined() && x.requires_grad() && is_floating(x.dtype()) && x.dtype() != DType::f64;
  const std::optional<DType> dtype = casts ? amp::autocast_dtype(x.device()) : std::nullopt;
  return dtype ? cast(x, *dtype) : x;
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options) {
  return Conv2d::apply(as_kept(x), weight, bias, options);
}

/// A sum of matrix products, one for each place (p, q) in the window.
Tensor composite::conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                         const Conv2dOptions& options) {
  check_conv2d(x, weight, bias, options, Mixed::f32);
  const Shape shape = kernels::conv2d_shape(x.shape(), weight.shape(), options);
  const int64_t images = shape[0], out = shape[1], height = shape[2], width = shape[3];
  const int64_t groups = options.groups, in = weight.size(1);
  auto wide = [&](const Tensor& pixels, const Tensor& weights, const Tensor& shift) {
    const auto [stride, padding, dilation, same_groups] = options;
    const auto [above, beside] = padding;
    Tensor padded = pad(pixels, {.top = above, .bottom = above, .left = beside, .right = beside}), y;
    for (int64_t p = 0; p < weight.size(2); ++p)
      for (int64_t q = 0; q < weight.size(3); ++q) {
        const int64_t row = p * dilation.height, column = q * dilation.width;
        Tensor rows = slice(padded, 2, row, row + (height - 1) * stride.height + 1, stride.height);
        Tensor seen = slice(rows, 3, column, column + (width - 1) * stride.width + 1, stride.width);
        Tensor factor = reshape(select(select(weights, 3, q), 2, p), {groups, out / groups, in});
        Tensor term =
            matmul(factor, reshape(seen, {images, groups, in, height * width}));  // (N, G, O/G, I J)
        y = y.defined() ? y + term : term;
      }
    y = reshape(y, shape);
    return shift.defined() ? y + reshape(shift, {out, 1, 1}) : y;
  };
  return in_f32(wide, x, weight, bias);
}

}  // namespace reprise
