// Transposed convolution: forward is the gradient of a convolution, backward is that convolution. Keeps x and the
// weight.
#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/conv/weight_gradient.h"
#include "reprise/autograd/ops/gemm/linear_kernels.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/wide.h"
#include "reprise/kernels/conv/conv2d.h"
#include "reprise/kernels/reduce/reduce.h"

namespace reprise {
namespace {

using namespace autograd;

// The convolution that leads from the result back to x.
Conv2dOptions convolution_of(const ConvTranspose2dOptions& options) {
  return {options.stride, options.padding, options.dilation, options.groups};
}

// The size along one side of the result.
int64_t size_along(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                   int64_t more) {
  int64_t steps = 0, covered = 0, result = 0;
  check(!__builtin_mul_overflow(size - 1, stride, &steps) &&
            !__builtin_mul_overflow(dilation, kernel - 1, &covered) &&
            !__builtin_add_overflow(steps, covered, &result) && padding <= int64_t(1) << 31,
        "conv_transpose2d: the result is too large");
  return result - 2 * padding + more + 1;
}

Shape result_shape(const Tensor& x, const Tensor& weight, const ConvTranspose2dOptions& o) {
  constexpr auto op = "conv_transpose2d";
  check(x.rank() == 4 && weight.rank() == 4 && x.size(1) == weight.size(0), op,
        ": needs images (N, C, H, W) and a weight (C, O/G, P, Q), got ", x.shape(), " and ", weight.shape());
  check(o.output_padding.height >= 0 && o.output_padding.height < o.stride.height &&
            o.output_padding.width >= 0 && o.output_padding.width < o.stride.width,
        op, ": output_padding (", o.output_padding.height, ", ", o.output_padding.width,
        ") must be less than the stride (", o.stride.height, ", ", o.stride.width, ")");
  const Shape shape{x.size(0), weight.size(1) * o.groups,
                    size_along(x.size(2), weight.size(2), o.stride.height, o.padding.height,
                               o.dilation.height, o.output_padding.height),
                    size_along(x.size(3), weight.size(3), o.stride.width, o.padding.width, o.dilation.width,
                               o.output_padding.width)};
  check(x.size(2) > 0 && x.size(3) > 0 && shape[2] > 0 && shape[3] > 0, op, ": images ", x.shape(),
        " leave nothing behind a padding of (", o.padding.height, ", ", o.padding.width, ")");
  return shape;
}

// The shape of the result; Error if something does not fit.
Shape checked_shape(const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const ConvTranspose2dOptions& options, Mixed mixed) {
  constexpr auto op = "conv_transpose2d";
  const Shape shape = result_shape(x, weight, options);
  kernels::conv2d_shape(shape, weight.shape(), convolution_of(options));
  check_dtype(x, weight, op);
  check(!bias.defined() || may_stand_beside(bias.dtype(), x.dtype(), mixed), op,
        ": dtypes differ: ", x.dtype(), " and, of the bias, ", bias.defined() ? bias.dtype() : x.dtype());
  check_floating(op, x);
  check_device(op, x, weight);
  check_device(op, x, bias);
  check(!bias.defined() || bias.shape() == Shape{shape[1]}, op, ": bias is ",
        bias.defined() ? bias.shape() : Shape(), ", needs (", shape[1], ",)");
  return shape;
}

struct ConvTranspose2d : Function<ConvTranspose2d> {
  static constexpr const char* name = "conv_transpose2d";
  static constexpr auto autocast = amp::Policy::low;
  static constexpr uint32_t autocast_keeps = 0b100;  // bias
  static constexpr OpCost cost = OpCost::product();
  ConvTranspose2dOptions options_;

  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const ConvTranspose2dOptions& options) {
    options_ = options;
    const Stream stream = current_stream(x.device());
    const Mixed mixed = under_autocast() ? Mixed::f32 : Mixed::none;
    Tensor y = Tensor::empty(checked_shape(x, weight, bias, options, mixed), x.dtype(), x.device());
    const Tensor dense_x = x.contiguous(), dense_weight = weight.contiguous(),
                 dense_bias = bias.defined() ? bias.contiguous() : bias;
    kernels::conv2d_dx(stream, {.dy = dense_x.view(),
                                .weight = dense_weight.view(),
                                .bias = optional_view(dense_bias),
                                .options = convolution_of(options),
                                .dx = y.view()});
    save(x, weight, bias);
    return y;
  }

  TensorList backward(const TensorList& dys) {
    Tensor x = saved(0), weight = saved(1), bias = saved(2);
    if (grad_mode_enabled()) {
      auto same = [&](const TensorList& in) {
        return TensorList{composite::conv_transpose2d(in[0], in[1], in[2], options_)};
      };
      return composite_backward(same, {x, weight, bias}, dys);
    }
    const Stream stream = current_stream(x.device());
    const Conv2dOptions convolution = convolution_of(options_);
    const Tensor dense_x = x.contiguous(), dense_weight = weight.contiguous();
    Tensor dy = dys[0].contiguous(), dx, dweight, dbias;
    if (needs_grad(0)) {
      dx = raw_empty_like(x);
      kernels::conv2d(
          stream, {.x = dy.view(), .weight = dense_weight.view(), .options = convolution, .y = dx.view()});
    }
    if (needs_grad(1)) {
      MemoryScope memory = gradient_memory(1);
      dweight = conv_weight_gradient(dense_x, dy, convolution, weight, gradient_dtype(1, weight.dtype()),
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

// x (N, C, H, W) with stride - 1 zeros between its pixels.
Tensor spread(const Tensor& x, Size2 stride) {
  const int64_t planes = x.size(0) * x.size(1), height = x.size(2), width = x.size(3);
  Tensor wide = pad(reshape(x, {planes * height, width, 1}), {.right = stride.width - 1});
  Tensor tall = pad(reshape(wide, {planes * height, 1, width * stride.width}), {.bottom = stride.height - 1});
  Tensor all = reshape(tall, {x.size(0), x.size(1), height * stride.height, width * stride.width});
  return slice(slice(all, 2, 0, (height - 1) * stride.height + 1), 3, 0, (width - 1) * stride.width + 1);
}

}  // namespace

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dOptions& options) {
  return ConvTranspose2d::apply(x, weight, bias, options);
}

/// A sum of matrix products, one for each place (p, q) in the window, each laid where it belongs on a canvas that has
/// the padding still.
Tensor composite::conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                   const ConvTranspose2dOptions& options) {
  const Shape shape = checked_shape(x, weight, bias, options, Mixed::f32);
  const auto& [stride, padding, output_padding, dilation, groups] = options;
  const int64_t images = shape[0], in = x.size(1) / groups, out = weight.size(1);
  auto wide = [&](const Tensor& pixels, const Tensor& weights, const Tensor& shift) {
    Tensor seen = reshape(pixels, {images, groups, in, x.size(2) * x.size(3)}), canvas;
    for (int64_t p = 0; p < weight.size(2); ++p)
      for (int64_t q = 0; q < weight.size(3); ++q) {
        Tensor factor = reshape(select(select(weights, 3, q), 2, p), {groups, in, out});
        Tensor term = matmul(transpose(factor, 1, 2), seen);  // (N, G, O/G, H W)
        term = spread(reshape(term, {images, groups * out, x.size(2), x.size(3)}), stride);
        const int64_t top = p * dilation.height, left = q * dilation.width;
        term = pad(term, {.top = top,
                          .bottom = shape[2] + 2 * padding.height - top - term.size(2),
                          .left = left,
                          .right = shape[3] + 2 * padding.width - left - term.size(3)});
        canvas = canvas.defined() ? canvas + term : term;
      }
    Tensor y = slice(slice(canvas, 2, padding.height, padding.height + shape[2]), 3, padding.width,
                     padding.width + shape[3]);
    return shift.defined() ? y + reshape(shift, {shape[1], 1, 1}) : y;
  };
  return in_f32(wide, x, weight, bias);
}

}  // namespace reprise
