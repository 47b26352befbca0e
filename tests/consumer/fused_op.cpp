// A fused operation of a user's own: kernels for the CPU and CUDA, with gradient, cost and autocast policy; and its test, which
// runs on every device that this build of Reprise has, the emulator's too.
#include <reprise/core/cuda/runtime.h>
#include <reprise/reprise.h>

#include <cstdio>

#include "bias_squared_relu.h"

namespace rp = reprise;

// The same function of operations that exist: the oracle, and the path of second derivatives.
rp::Tensor composite(const rp::Tensor& x, const rp::Tensor& bias) { return rp::square(rp::relu(x + bias)); }

struct BiasSquaredRelu : rp::autograd::Function<BiasSquaredRelu> {
  static constexpr const char* name = "bias_squared_relu";
  static constexpr auto cost = rp::autograd::OpCost::pointwise();  // policies of recompute play it again
  static constexpr auto autocast = rp::amp::Policy::f32;           // 16-bit arguments are cast before forward

  rp::Tensor forward(const rp::Tensor& x, const rp::Tensor& bias) {
    const rp::Tensor rows = x.contiguous(), along = bias.contiguous();
    rp::Tensor y = rp::Tensor::empty(x.shape(), x.dtype(), x.device());
    bias_squared_relu_kernel(rp::current_stream(x.device()),
                             {.x = rows.view(), .bias = along.view(), .y = y.view()});
    save(x, bias);  // not the copies, which have no graph for second derivatives
    return y;
  }

  rp::TensorList backward(const rp::TensorList& dy) {
    const rp::Tensor x = saved(0), bias = saved(1);
    if (rp::autograd::grad_mode_enabled())  // create_graph
      return rp::autograd::composite_backward(
          [](const rp::TensorList& in) { return rp::TensorList{composite(in[0], in[1])}; }, {x, bias}, dy);
    rp::Tensor dx = rp::Tensor::empty(x.shape(), x.dtype(), x.device());
    const rp::Tensor dy_rows = dy[0].contiguous(), rows = x.contiguous(), along = bias.contiguous();
    bias_squared_relu_backward_kernel(
        rp::current_stream(x.device()),
        {.dy = dy_rows.view(), .x = rows.view(), .bias = along.view(), .dx = dx.view()});
    rp::Tensor dbias;
    if (needs_grad(1)) dbias = rp::sum(dx.reshape({-1, bias.size(0)}), {0});
    return {dx, dbias};
  }
};

rp::Tensor bias_squared_relu(const rp::Tensor& x, const rp::Tensor& bias) {
  return BiasSquaredRelu::apply(x, bias);
}

// Results and gradients of the two, which differ by a rounding at most.
bool is_the_composite(const rp::Device& device) {
  rp::manual_seed(3);
  const rp::Tensor x0 = rp::randn({37, 5, 19}), bias0 = rp::randn({19}),
                   dy = rp::randn({37, 5, 19}).to(device);
  auto run = [&](const auto& fn) {
    rp::Tensor x = x0.to(device).detach().set_requires_grad();
    rp::Tensor bias = bias0.to(device).detach().set_requires_grad();
    // Played again in backward too: the same bits.
    const rp::Tensor y = rp::checkpoint([&](const rp::Tensor& in) { return fn(in, bias); }, x);
    (y * dy).sum().backward();
    return rp::TensorList{y.detach(), x.grad(), bias.grad()};
  };
  const rp::TensorList got = run(bias_squared_relu), want = run(composite);
  for (size_t i = 0; i < want.size(); ++i) {
    const double off = rp::max(rp::abs(got[i].to(rp::Device::cpu()) - want[i].to(rp::Device::cpu()))).item();
    std::printf("%s: tensor %zu is %.1e off\n", to_string(device).c_str(), i, off);
    if (!(off < 1e-4)) return false;  // of sums of 185 numbers in f32
  }
  return true;
}

void check_gradients(const rp::Device& device) {
  const auto real = [&](const rp::Shape& shape) {
    return rp::randn(shape, rp::DType::f64).to(device).detach().set_requires_grad();
  };
  const auto fn = [](const rp::TensorList& in) { return rp::TensorList{bias_squared_relu(in[0], in[1])}; };
  rp::autograd::gradcheck(fn, {real({3, 5}), real({5})});  // an Error names the element that differs
  rp::autograd::gradgradcheck(fn, {real({3, 5}), real({5})});
}

bool is_f32_under_autocast(const rp::Device& device) {
  const rp::amp::Autocast scope(device, rp::DType::bf16);
  const rp::Tensor x = rp::randn({4, 6}).to(device).to(rp::DType::bf16);
  return bias_squared_relu(x, rp::zeros({6}, rp::DType::f32, device)).dtype() == rp::DType::f32;
}

int main() {
  std::vector<rp::Device> devices = {rp::Device::cpu()};
  if (rp::cuda::device_count() > 0) devices.push_back(rp::Device::cuda());
  for (const rp::Device& device : devices) {
    if (!is_the_composite(device) || !is_f32_under_autocast(device)) return 1;
    check_gradients(device);
  }
  try {
    bias_squared_relu(rp::zeros({2, 3}), rp::zeros({4}));
    return 1;
  } catch (const rp::Error& error) { std::printf("refused: %s\n", error.what()); }
  return 0;
}
