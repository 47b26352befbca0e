// The two-layer perceptron of a transformer block as one operation. It keeps the input and the
// pre-activation; backward computes the activation again, which costs one pass over it and saves its memory.
#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/gemm/linear_kernels.h"
#include "reprise/autograd/ops/wide.h"

namespace reprise {
namespace {

using namespace autograd;

struct Mlp : Function<Mlp> {
  static constexpr const char* name = "mlp";
  static constexpr OpCost cost = OpCost::product();
  Activation activation_ = Activation::none;

  Tensor forward(const Tensor& x, const Tensor& weight1, const Tensor& bias1, const Tensor& weight2,
                 const Tensor& bias2, const Tensor& residual, Activation activation) {
    check_linear(x, weight1, bias1, name);
    check(weight2.rank() == 2 && weight2.size(1) == weight1.size(0) && weight2.dtype() == weight1.dtype(),
          "mlp: weights ", weight1.dtype(), weight1.shape(), " and ", weight2.dtype(), weight2.shape(),
          " do not follow each other");
    check_device(name, weight1, weight2);
    check_bias(bias2, weight2, name);
    check_residual(residual, x, weight2.size(0), name);
    activation_ = activation;
    Tensor rows = as_rows(x), pre;  // (N, C), (N, hidden)
    kernels::Epilogue first{.activation = activation}, second;
    Tensor flat_bias1 = bias_of(bias1);
    if (bias1.defined()) first.bias = flat_bias1;
    if (!results_wanted()) {
      first.activation = Activation::none;
      save(x, weight1, bias1, weight2, bias2, linear_forward(rows, weight1, first));
      Shape shape = with_width(x, weight2.size(0));
      return Tensor::hollow({nullptr, shape, contiguous_strides(shape), x.dtype(), x.device()});
    }
    if (recording()) {
      pre = Tensor::empty({rows.size(0), weight1.size(0)}, x.dtype(), x.device());
      first.pre_activation = pre;
    }
    Tensor hidden = linear_forward(rows, weight1, first);
    Tensor flat_bias2 = bias_of(bias2), rows_of_residual = residual_rows(residual);
    if (bias2.defined()) second.bias = flat_bias2;
    if (residual.defined()) second.residual = rows_of_residual;
    Tensor y = linear_forward(hidden, weight2, second);
    save(x, weight1, bias1, weight2, bias2, pre);
    return raw_reshape(y, with_width(x, weight2.size(0)));
  }

  TensorList backward(const TensorList& dy) {
    if (grad_mode_enabled()) return differentiable_backward(dy[0]);
    Tensor x = saved(0), weight1 = saved(1), weight2 = saved(3), pre = saved(5);
    Tensor dy_rows = as_rows(dy[0]), rows = as_rows(x);
    TensorList grads(6);
    auto parameters = [&](int weight, int bias, const Tensor& d, const Tensor& input) {
      MemoryScope memory = gradient_memory(weight);
      Tensor* dbias = needs_grad(bias) ? &grads[size_t(bias)] : nullptr;
      if (needs_grad(weight))
        grads[size_t(weight)] = linear_dweight(d, input, dbias);
      else if (dbias)
        *dbias = linear_dbias(d);
    };
    parameters(3, 4, dy_rows, needs_grad(3) ? activated(pre) : Tensor());
    if (needs_grad(5)) grads[5] = dy[0];
    kernels::Epilogue times_derivative{.activation = activation_};
    if (activation_ != Activation::none) times_derivative.dactivation = pre;
    Tensor dpre = linear_dx(dy_rows, weight2, times_derivative);  // (N, hidden)
    parameters(1, 2, dpre, rows);
    if (needs_grad(0)) grads[0] = raw_reshape(linear_dx(dpre, weight1), x.shape());
    return grads;
  }

  Tensor activated(const Tensor& pre) const {
    NoGrad guard;
    return activate(pre.detach(), activation_);
  }

  TensorList differentiable_backward(const Tensor& dy) {
    auto same = [&](const TensorList& in) {
      return TensorList{composite::mlp(in[0], in[1], in[2], in[3], in[4], activation_, {})};
    };
    TensorList grads = composite_backward(same, {saved(0), saved(1), saved(2), saved(3), saved(4)}, {dy});
    grads.push_back(needs_grad(5) ? dy : Tensor());
    return grads;
  }
};

}  // namespace

Tensor mlp(const Tensor& x, const Tensor& weight1, const Tensor& bias1, const Tensor& weight2,
           const Tensor& bias2, Activation activation, const Tensor& residual) {
  return Mlp::apply(x, weight1, bias1, weight2, bias2, residual, activation);
}

Tensor composite::mlp(const Tensor& x, const Tensor& weight1, const Tensor& bias1, const Tensor& weight2,
                      const Tensor& bias2, Activation activation, const Tensor& residual) {
  auto wide = [&](const Tensor& in, const Tensor& w1, const Tensor& b1, const Tensor& w2, const Tensor& b2,
                  const Tensor& added) {
    Tensor hidden = composite::linear(in, w1, b1, {.activation = activation});
    return composite::linear(hidden, w2, b2, {.activation = Activation::none, .residual = added});
  };
  return in_f32(wide, x, weight1, bias1, weight2, bias2, residual);
}

}  // namespace reprise
