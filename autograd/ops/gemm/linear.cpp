// The fully connected layer, one matrix product with its epilogue.
#include "reprise/autograd/ops/gemm/linear_kernels.h"

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/wide.h"
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

Tensor bias_of(const Tensor& bias) { return bias.defined() ? bias.contiguous() : bias; }
Tensor residual_rows(const Tensor& residual) {
  return residual.defined() ? unit_stride(as_rows(residual)) : residual;
}

Tensor linear_forward(const Tensor& x, const Tensor& weight, const kernels::Epilogue& epilogue) {
  Tensor y = Tensor::empty({x.size(0), weight.size(0)}, x.dtype(), x.device());
  kernels::gemm(current_stream(x.device()),
                {.a = x, .b = transpose(weight.view(), 0, 1), .c = y, .epilogue = epilogue});
  return y;
}

Tensor linear_dx(const Tensor& dy, const Tensor& weight, const kernels::Epilogue& epilogue) {
  Tensor dx = Tensor::empty({dy.size(0), weight.size(1)}, dy.dtype(), dy.device());
  kernels::gemm(current_stream(dy.device()), {.a = dy, .b = weight, .c = dx, .epilogue = epilogue});
  return dx;
}

Tensor linear_dweight(const Tensor& dy, const Tensor& x, Tensor* dbias) {
  Tensor dweight = Tensor::empty({dy.size(1), x.size(1)}, dy.dtype(), dy.device());
  kernels::Epilogue epilogue;
  if (dbias) {
    *dbias = Tensor::empty({dy.size(1)}, dy.dtype(), dy.device());
    epilogue.bias_gradient = *dbias;
  }
  kernels::gemm(current_stream(dy.device()),
                {.a = transpose(dy.view(), 0, 1), .b = x, .c = dweight, .epilogue = epilogue});
  return dweight;
}

Tensor linear_dbias(const Tensor& dy) {
  Tensor dbias = Tensor::empty({1, dy.size(1)}, dy.dtype(), dy.device());
  kernels::reduce(current_stream(dy.device()), kernels::ReduceOp::sum, dy, dbias);
  return raw_reshape(dbias, {dy.size(1)});
}

void check_bias(const Tensor& bias, const Tensor& weight, const char* op) {
  if (!bias.defined()) return;
  check_device(op, weight, bias);
  check(bias.shape() == Shape{weight.size(0)} && bias.dtype() == weight.dtype(), op, ": bias ", bias.dtype(),
        bias.shape(), " does not fit weight ", weight.dtype(), weight.shape());
}

void check_residual(const Tensor& residual, const Tensor& x, int64_t width, const char* op) {
  if (!residual.defined()) return;
  check_device(op, x, residual);
  check(residual.shape() == with_width(x, width) && residual.dtype() == x.dtype(), op, ": residual ",
        residual.dtype(), residual.shape(), " does not fit the result ", x.dtype(), with_width(x, width));
}

void check_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const char* op) {
  check(x.rank() >= 1 && weight.rank() == 2 && x.size(-1) == weight.size(1), op, ": input ", x.shape(),
        " does not fit weight ", weight.shape(), " (out, in)");
  check(x.dtype() == weight.dtype(), op, ": input is ", x.dtype(), ", weight ", weight.dtype());
  check_floating(op, x);
  check_device(op, x, weight);
  check_bias(bias, weight, op);
}

}  // namespace autograd

namespace {

using namespace autograd;

struct Linear : Function<Linear> {
  static constexpr const char* name = "linear";
  static constexpr OpCost cost{OpCost::Kind::product,
                               [](const OpShapes& of) {
                                 return OpCost::Sums{of.inputs[0].back(), of.results[0].back()};
                               },
                               /*residual=*/3};
  Activation activation_ = Activation::none;
  bool has_bias_ = false;

  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual,
                 Activation activation) {
    check_linear(x, weight, bias, name);
    check_residual(residual, x, weight.size(0), name);
    activation_ = activation;
    has_bias_ = bias.defined();
    kernels::Epilogue epilogue{.activation = activation};
    Tensor flat_bias = bias_of(bias), rows_of_residual = residual_rows(residual);
    if (bias.defined()) epilogue.bias = flat_bias;
    if (residual.defined()) epilogue.residual = rows_of_residual;
    Tensor rows = as_rows(x), pre;
    if (recording() && activation != Activation::none) {
      pre = Tensor::empty({rows.size(0), weight.size(0)}, x.dtype(), x.device());
      epilogue.pre_activation = pre;
    }
    save(x, weight, bias, pre);
    return raw_reshape(linear_forward(rows, weight, epilogue), with_width(x, weight.size(0)));
  }

  TensorList backward(const TensorList& dy) {
    Tensor x = saved(0), weight = saved(1);
    if (grad_mode_enabled()) return differentiable_backward(dy[0], x, weight, saved(2));
    Tensor d = as_rows(dy[0]), dx, dweight, dbias;
    if (activation_ != Activation::none) {
      Tensor dpre = empty_like(d);
      kernels::unary_backward(current_stream(d.device()), kernels::unary_of(activation_), d, saved(3).view(),
                              dpre);
      d = dpre;
    }
    if (needs_grad(0)) dx = raw_reshape(linear_dx(d, weight), x.shape());
    const bool wants_dbias = has_bias_ && needs_grad(2);
    Tensor rows = as_rows(x);
    MemoryScope memory = gradient_memory(1);
    if (needs_grad(1))
      dweight = linear_dweight(d, rows, wants_dbias ? &dbias : nullptr);
    else if (wants_dbias)
      dbias = linear_dbias(d);
    return {dx, dweight, dbias, needs_grad(3) ? dy[0] : Tensor()};
  }

  TensorList differentiable_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                     const Tensor& bias) {
    auto same = [&](const TensorList& in) {
      return TensorList{composite::linear(in[0], in[1], in[2], {.activation = activation_})};
    };
    TensorList grads = composite_backward(same, {x, weight, bias}, {dy});
    grads.push_back(needs_grad(3) ? dy : Tensor());
    return grads;
  }
};

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const LinearEpilogue& options) {
  return Linear::apply(x, weight, bias, options.residual, options.activation);
}

Tensor composite::linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
                         const LinearEpilogue& options) {
  auto wide = [&](const Tensor& in, const Tensor& factor, const Tensor& shift, const Tensor& residual) {
    Tensor across = transpose(factor, 0, 1);
    Tensor y = in.rank() > 1 ? matmul(in, across) : squeeze(matmul(unsqueeze(in, 0), across), 0);
    if (shift.defined()) y = y + shift;
    y = composite::activate(y, options.activation);
    return residual.defined() ? y + residual : y;
  };
  return in_f32(wide, x, weight, bias, options.residual);
}

}  // namespace reprise
