// The fully connected layer, one matrix product with its epilogue.
#include "reprise/autograd/ops/gemm/linear_kernels.h"

#include <utility>

#include "reprise/autograd/function.h"
#include "reprise/autograd/graph_task.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/padded_rows.h"
#include "reprise/autograd/ops/result_dtype.h"
#include "reprise/autograd/ops/wide.h"
#include "reprise/kernels/elementwise/elementwise.h"
#include "reprise/kernels/elementwise/elementwise_table.h"
#include "reprise/kernels/reduce/reduce.h"

namespace reprise {
namespace autograd {

Tensor as_rows(const Tensor& x) {
  TensorView view;
  Shape shape{numel_of(rows_shape(x)), x.size(-1)};
  if (try_reshape(x, shape, view)) return x.alias(view);
  NoGrad guard;
  return reshape(clone(x), shape);
}

KernelEpilogue::KernelEpilogue(const Tensor& bias, const LinearEpilogue& options)
    : views{.activation = options.activation} {
  auto dense = [](const Tensor& x) { return x.defined() ? x.contiguous() : x; };
  bias_ = dense(bias), scale_ = dense(options.scale), row_scale_ = dense(options.row_scale);
  if (options.residual.defined()) residual_ = unit_stride(as_rows(options.residual));
  views.bias = optional_view(bias_);
  views.residual = optional_view(residual_);
  views.scale = optional_view(scale_);
  views.row_scale = optional_view(row_scale_);
}

DType product_dtype(DType out, DType factors) {
  const bool writes = out == factors || (is_half(factors) && out == DType::f32);
  return writes ? out : DType::f32;
}

Tensor linear_forward(const Tensor& x, const Tensor& weight, const kernels::Epilogue& epilogue,
                      std::optional<DType> out) {
  NoGrad guard;
  const DType widest = epilogue.residual ? promote(x.dtype(), epilogue.residual.dtype) : x.dtype();
  const DType dtype = out.value_or(widest);
  const Stream& stream = current_stream(x.device());
  const Shape shape{x.size(0), weight.size(0)};
  const Tensor product = empty_padded(shape, product_dtype(dtype, x.dtype()), x.device());
  kernels::gemm(stream, {.a = x, .b = transpose(weight.view(), 0, 1), .c = product, .epilogue = epilogue});
  if (product.dtype() == dtype) return product;
  const Tensor y = empty_padded(shape, dtype, x.device());
  kernels::copy(stream, product, y);
  return y;
}

Tensor product_gradient(const Tensor& dy, const Tensor& row_scale, DType dtype) {
  NoGrad guard;
  if (!row_scale.defined() || dy.numel() == 0) return converted(dy, dtype);
  const int64_t samples = row_scale.size(0);
  const Shape by_sample{samples, dy.size(0) / samples, dy.size(1)};
  return converted(raw_reshape(reshape(dy, by_sample) * reshape(row_scale, {samples, 1, 1}), dy.shape()),
                   dtype);
}

namespace {
// x * factor in `dtype`: where one of them is f32 beside 16 bits, rounded only then.
Tensor scaled(const Tensor& x, const Tensor& factor, DType dtype) {
  const DType wide = promote(x.dtype(), factor.dtype());
  return converted(converted(x, wide) * converted(factor, wide), dtype);
}

// G and g are multiplied by the scale, and summed to its gradient, before they are rounded.
LinearGradientDtypes before_scale(const LinearParameters& of) {
  if (!of.scale.defined()) return of.dtypes;
  const DType widest = promote(of.scale.dtype(), of.dtypes.scale);
  return {promote(of.dtypes.weight, widest), promote(of.dtypes.bias, widest), of.dtypes.scale};
}
}  // namespace

Tensor linear_dx(const Tensor& d, const Tensor& weight, const Tensor& scale,
                 const kernels::Epilogue& epilogue) {
  NoGrad guard;
  Tensor left = d, right = weight;
  if (scale.defined()) {
    // The smaller one is scaled; but a weight times LayerScale's 1e-4 would be subnormal in f16.
    if (d.dtype() == DType::f16)
      left = scaled(d, scale, d.dtype());
    else
      right = scaled(weight, unsqueeze(scale, 1), weight.dtype());
  }
  Tensor dx = Tensor::empty({d.size(0), weight.size(1)}, d.dtype(), d.device());
  kernels::gemm(current_stream(d.device()), {.a = left, .b = right, .c = dx, .epilogue = epilogue});
  return dx;
}

Tensor linear_dweight(const Tensor& dy, const Tensor& x, LinearGradientDtypes dtypes, Tensor* dbias,
                      const Tensor& sum) {
  const Shape shape{dy.size(1), x.size(1)};
  Tensor dweight = sum.defined() ? sum : Tensor::empty(shape, dtypes.weight, dy.device());
  kernels::Epilogue epilogue{.accumulate = sum.defined()};
  if (dbias) {
    *dbias = Tensor::empty({dy.size(1)}, dtypes.bias, dy.device());
    epilogue.bias_gradient = *dbias;
  }
  kernels::gemm(current_stream(dy.device()),
                {.a = transpose(dy.view(), 0, 1), .b = x, .c = dweight, .epilogue = epilogue});
  return dweight;
}

Tensor linear_dbias(const Tensor& dy, DType dtype) {
  Tensor dbias = Tensor::empty({1, dy.size(1)}, dtype, dy.device());
  kernels::reduce(current_stream(dy.device()), kernels::ReduceOp::sum, dy, dbias);
  return raw_reshape(dbias, {dy.size(1)});
}

ParameterGradients linear_gradients(const Tensor& d, const LinearParameters& of,
                                    const std::function<Tensor()>& input) {
  ParameterGradients grads;
  const bool sums_rows = of.wants_bias || (of.wants_scale && of.bias.defined());
  const LinearGradientDtypes dtypes = before_scale(of);
  if (of.wants_weight || of.wants_scale) {
    const Tensor x = input();
    GraphTask::LeafSum sum;
    if (!of.scale.defined() && !is_half(dtypes.weight)) sum = GraphTask::sum_at_leaf(of.to);
    grads.weight = linear_dweight(d, x, dtypes, sums_rows ? &grads.bias : nullptr, sum.gradient);
  } else if (sums_rows) {
    grads.bias = linear_dbias(d, dtypes.bias);
  }
  if (!of.scale.defined()) return grads;
  NoGrad guard;
  if (of.wants_scale) {
    auto dscale = [](const Tensor& products, const Tensor& weight, const Tensor& bias, const Tensor& sums) {
      Tensor of_products = sum(weight * products, {1});
      return bias.defined() ? of_products + bias * sums : of_products;
    };
    grads.scale =
        converted(in_f32_inside(dscale, grads.weight, of.weight, of.bias, grads.bias), of.dtypes.scale);
  }
  const Stream& stream = current_stream(d.device());
  auto finish = [&](bool wanted, Tensor& gradient, const Tensor& factor, DType dtype) {
    if (!wanted) {
      gradient = Tensor();
      return;
    }
    kernels::binary(stream, kernels::BinaryOp::mul, gradient,
                    expand(converted(factor, gradient.dtype()).view(), gradient.shape()), gradient);
    gradient = converted(gradient, dtype);
  };
  finish(of.wants_weight, grads.weight, unsqueeze(of.scale, 1), of.dtypes.weight);
  finish(of.wants_bias, grads.bias, of.scale, of.dtypes.bias);
  return grads;
}

bool may_stand_beside(DType dtype, DType product, Mixed mixed) {
  return dtype == product || (mixed == Mixed::f32 && dtype == DType::f32 && is_half(product));
}

void check_bias(const Tensor& bias, const Tensor& weight, const char* op, Mixed mixed) {
  if (!bias.defined()) return;
  check_device(op, weight, bias);
  check(bias.shape() == Shape{weight.size(0)} && may_stand_beside(bias.dtype(), weight.dtype(), mixed), op,
        ": bias ", bias.dtype(), bias.shape(), " does not fit weight ", weight.dtype(), weight.shape());
}

void check_epilogue(const LinearEpilogue& epilogue, const Tensor& x, int64_t width, const char* op,
                    Mixed mixed) {
  if (epilogue.out) check_result_dtype(op, x, *epilogue.out);
  auto check_part = [&](const char* what, const Tensor& part, const Shape& want) {
    if (!part.defined()) return;
    check_device(op, x, part);
    check(part.shape() == want && may_stand_beside(part.dtype(), x.dtype(), mixed), op, ": ", what, " ",
          part.dtype(), part.shape(), " does not fit the result ", x.dtype(), with_width(x, width),
          ", which needs ", want);
  };
  check_part("residual", epilogue.residual, with_width(x, width));
  check_part("scale", epilogue.scale, {width});
  if (!epilogue.row_scale.defined()) return;
  check(x.rank() >= 2, op, ": row_scale needs samples, x is ", x.shape());
  check_part("row_scale", epilogue.row_scale, {x.size(0)});
}

void check_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const char* op, Mixed mixed) {
  check(x.rank() >= 1 && weight.rank() == 2 && x.size(-1) == weight.size(1), op, ": input ", x.shape(),
        " does not fit weight ", weight.shape(), " (out, in)");
  check(x.dtype() == weight.dtype(), op, ": input is ", x.dtype(), ", weight ", weight.dtype());
  check_floating(op, x);
  check_device(op, x, weight);
  check_bias(bias, weight, op, mixed);
}

}  // namespace autograd

namespace {

using namespace autograd;

struct Linear : Function<Linear> {
  static constexpr const char* name = "linear";
  static constexpr auto autocast = amp::Policy::low;
  static constexpr uint32_t autocast_keeps = 0b111100;  // bias, residual, scale and row_scale
  static constexpr OpCost cost{OpCost::Kind::product,
                               [](const OpShapes& of) {
                                 return OpCost::Sums{of.inputs[0].back(), of.results[0].back()};
                               },
                               /*residual=*/3};
  Activation activation_ = Activation::none;
  bool has_bias_ = false;

  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual,
                 const Tensor& scale, const Tensor& row_scale, Activation activation,
                 std::optional<DType> out) {
    const LinearEpilogue options{activation, residual, scale, row_scale, out};
    const Mixed mixed = under_autocast() ? Mixed::f32 : Mixed::none;
    check_linear(x, weight, bias, name, mixed);
    check_epilogue(options, x, weight.size(0), name, mixed);
    activation_ = activation;
    has_bias_ = bias.defined();
    KernelEpilogue epilogue(bias, options);
    Tensor rows = as_rows(x), pre;
    if (recording() && activation != Activation::none) {
      pre = Tensor::empty({rows.size(0), weight.size(0)}, x.dtype(), x.device());
      epilogue.views.pre_activation = pre;
    }
    save(x, weight, bias, pre, scale, row_scale);
    return raw_reshape(linear_forward(rows, weight, epilogue.views, out), with_width(x, weight.size(0)));
  }

  TensorList backward(const TensorList& dy) {
    Tensor x = saved(0), weight = saved(1), bias = saved(2), scale = saved(4), row_scale = saved(5);
    Tensor dresidual = needs_grad(3) ? converted(dy[0], gradient_dtype(3, x.dtype())) : Tensor();
    if (grad_mode_enabled()) {
      TensorList grads = differentiable_backward(dy[0], {x, weight, bias, scale}, row_scale);
      return {grads[0], grads[1], grads[2], dresidual, grads[3], Tensor()};
    }
    Tensor d = product_gradient(as_rows(dy[0]), row_scale, x.dtype()), dx, dscale;
    if (activation_ != Activation::none) d = before_activation(d, std::exchange(scale, {}), dscale);
    if (needs_grad(0)) dx = raw_reshape(linear_dx(d, weight, scale), x.shape());
    MemoryScope memory = gradient_memory(1);
    ParameterGradients grads = linear_gradients(
        d,
        {weight,
         bias,
         scale,
         needs_grad(1),
         has_bias_ && needs_grad(2),
         scale.defined() && needs_grad(4),
         {gradient_dtype(1, d.dtype()), gradient_dtype(2, d.dtype()), gradient_dtype(4, d.dtype())},
         edges()[1]},
        [&] { return as_rows(x); });
    return {dx, grads.weight, grads.bias, dresidual, scale.defined() ? grads.scale : dscale, Tensor()};
  }

  /// The gradient of x W^T + bias from that of scale * activation(x W^T + bias); sets the scale's.
  Tensor before_activation(Tensor d, const Tensor& scale, Tensor& dscale) {
    Tensor pre = saved(3);
    if (scale.defined()) {
      NoGrad guard;
      if (needs_grad(4))
        dscale = in_f32_inside(
            [&](const Tensor& dy, const Tensor& z) { return sum(dy * activate(z, activation_), {0}); },
            converted(d, gradient_dtype(4, d.dtype())), pre.detach());
      d = scaled(d, scale, d.dtype());
    }
    Tensor dpre = raw_empty_like(d);
    kernels::unary_backward(current_stream(d.device()), kernels::unary_of(activation_), d, pre.view(), dpre);
    return dpre;
  }

  TensorList differentiable_backward(const Tensor& dy, const TensorList& inputs, const Tensor& row_scale) {
    auto same = [&](const TensorList& in) {
      return TensorList{composite::linear(
          in[0], in[1], in[2], {.activation = activation_, .scale = in[3], .row_scale = row_scale})};
    };
    return composite_backward(same, inputs, {cast(dy, inputs[0].dtype())});
  }
};

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const LinearEpilogue& options) {
  return Linear::apply(x, weight, bias, options.residual, options.scale, options.row_scale,
                       options.activation, options.out);
}

Tensor composite::linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
                         const LinearEpilogue& options) {
  auto wide = [&](const Tensor& in, const Tensor& factor, const Tensor& shift, const Tensor& residual,
                  const Tensor& scale, const Tensor& row_scale) {
    Tensor across = transpose(factor, 0, 1);
    Tensor y = in.rank() > 1 ? matmul(in, across) : squeeze(matmul(unsqueeze(in, 0), across), 0);
    if (shift.defined()) y = y + shift;
    y = composite::activate(y, options.activation);
    if (scale.defined()) y = y * scale;
    if (row_scale.defined()) {
      Shape by_sample = Dims::filled(y.rank(), 1);
      by_sample[0] = y.size(0);
      y = y * reshape(row_scale.detach(), by_sample);
    }
    return residual.defined() ? y + residual : y;
  };
  return in_f32(wide, x, weight, bias, options.residual, options.scale, options.row_scale);
}

}  // namespace reprise
