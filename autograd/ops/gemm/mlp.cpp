// The two-layer perceptron of a transformer block as one operation. It keeps the input and the
// pre-activation; backward computes the activation again, which costs one pass over it and saves its memory.
#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/gemm/linear_kernels.h"
#include "reprise/autograd/ops/padded_rows.h"
#include "reprise/autograd/ops/wide.h"

namespace reprise {
namespace {

using namespace autograd;

struct Mlp : Function<Mlp> {
  static constexpr const char* name = "mlp";
  static constexpr auto autocast = amp::Policy::low;
  static constexpr uint32_t autocast_keeps = 0b11110100;  // biases, residual, scale and row_scale
  static constexpr OpCost cost = OpCost::product();
  Activation activation_ = Activation::none;

  Tensor forward(const Tensor& x, const Tensor& weight1, const Tensor& bias1, const Tensor& weight2,
                 const Tensor& bias2, const Tensor& residual, const Tensor& scale, const Tensor& row_scale,
                 Activation activation, std::optional<DType> out) {
    const LinearEpilogue options{Activation::none, residual, scale, row_scale, out};
    const Mixed mixed = under_autocast() ? Mixed::f32 : Mixed::none;
    check_linear(x, weight1, bias1, name, mixed);
    check(weight2.rank() == 2 && weight2.size(1) == weight1.size(0) && weight2.dtype() == weight1.dtype(),
          "mlp: weights ", weight1.dtype(), weight1.shape(), " and ", weight2.dtype(), weight2.shape(),
          " do not follow each other");
    check_device(name, weight1, weight2);
    check_bias(bias2, weight2, name, mixed);
    check_epilogue(options, x, weight2.size(0), name, mixed);
    activation_ = activation;
    Tensor rows = as_rows(x), pre;  // (N, C), (N, hidden)
    KernelEpilogue first(bias1, {.activation = activation}), second(bias2, options);
    if (!results_wanted()) {
      first.views.stops_before_activation = true;
      save(x, weight1, bias1, weight2, bias2, linear_forward(rows, weight1, first.views), scale, row_scale);
      const Shape shape = with_width(x, weight2.size(0));
      const DType widest = residual.defined() ? promote(x.dtype(), residual.dtype()) : x.dtype();
      return hollow_padded(shape, out.value_or(widest), x.device());
    }
    if (recording()) {
      pre = Tensor::empty({rows.size(0), weight1.size(0)}, x.dtype(), x.device());
      first.views.pre_activation = pre;
    }
    Tensor hidden = linear_forward(rows, weight1, first.views);
    Tensor y = linear_forward(hidden, weight2, second.views, out);
    save(x, weight1, bias1, weight2, bias2, pre, scale, row_scale);
    return raw_reshape(y, with_width(x, weight2.size(0)));
  }

  TensorList backward(const TensorList& dy) {
    if (grad_mode_enabled()) return differentiable_backward(dy[0]);
    Tensor x = saved(0), weight1 = saved(1), weight2 = saved(3), pre = saved(5), scale = saved(6);
    Tensor d = product_gradient(as_rows(dy[0]), saved(7), x.dtype());  // (N, C)
    TensorList grads(8);
    if (needs_grad(5)) grads[5] = dresidual(dy[0]);
    {
      MemoryScope memory = gradient_memory(3);
      ParameterGradients second = linear_gradients(
          d,
          {weight2,
           saved(4),
           scale,
           needs_grad(3),
           needs_grad(4),
           scale.defined() && needs_grad(6),
           {gradient_dtype(3, d.dtype()), gradient_dtype(4, d.dtype()), gradient_dtype(6, d.dtype())},
           edges()[3]},
          [&] { return activated(pre); });
      grads[3] = second.weight, grads[4] = second.bias, grads[6] = second.scale;
    }
    kernels::Epilogue times_derivative{.activation = activation_};
    if (activation_ != Activation::none) times_derivative.dactivation = pre;
    Tensor dpre = linear_dx(d, weight2, scale, times_derivative);  // (N, hidden)
    {
      MemoryScope memory = gradient_memory(1);
      ParameterGradients first =
          linear_gradients(dpre,
                           {weight1,
                            {},
                            {},
                            needs_grad(1),
                            needs_grad(2),
                            false,
                            {gradient_dtype(1, dpre.dtype()), gradient_dtype(2, dpre.dtype())},
                            edges()[1]},
                           [&] { return as_rows(x); });
      grads[1] = first.weight, grads[2] = first.bias;
    }
    if (needs_grad(0)) grads[0] = raw_reshape(linear_dx(dpre, weight1, {}), x.shape());
    return grads;
  }

  Tensor dresidual(const Tensor& dy) const { return converted(dy, gradient_dtype(5, dy.dtype())); }

  Tensor activated(const Tensor& pre) const {
    NoGrad guard;
    return activate(pre.detach(), activation_);
  }

  TensorList differentiable_backward(const Tensor& dy) {
    Tensor x = saved(0), row_scale = saved(7);
    auto same = [&](const TensorList& in) {
      return TensorList{composite::mlp(in[0], in[1], in[2], in[3], in[4], activation_,
                                       {.scale = in[5], .row_scale = row_scale})};
    };
    TensorList grads = composite_backward(same, {x, saved(1), saved(2), saved(3), saved(4), saved(6)},
                                          {cast(dy, x.dtype())});
    grads.insert(grads.begin() + 5, needs_grad(5) ? dresidual(dy) : Tensor());
    grads.emplace_back();
    return grads;
  }
};

}  // namespace

Tensor mlp(const Tensor& x, const Tensor& weight1, const Tensor& bias1, const Tensor& weight2,
           const Tensor& bias2, Activation activation, const LinearEpilogue& end) {
  check(end.activation == Activation::none, "mlp: has no activation behind its second layer");
  return Mlp::apply(x, weight1, bias1, weight2, bias2, end.residual, end.scale, end.row_scale, activation,
                    end.out);
}

Tensor composite::mlp(const Tensor& x, const Tensor& weight1, const Tensor& bias1, const Tensor& weight2,
                      const Tensor& bias2, Activation activation, const LinearEpilogue& end) {
  auto wide = [&](const Tensor& in, const Tensor& w1, const Tensor& b1, const Tensor& w2, const Tensor& b2,
                  const Tensor& residual, const Tensor& scale, const Tensor& row_scale) {
    Tensor hidden = composite::linear(in, w1, b1, {.activation = activation});
    return composite::linear(hidden, w2, b2, {.residual = residual, .scale = scale, .row_scale = row_scale});
  };
  return in_f32(wide, x, weight1, bias1, weight2, bias2, end.residual, end.scale, end.row_scale);
}

}  // namespace reprise
