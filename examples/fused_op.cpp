// An operation of one's own with its gradient by hand: the square of ReLU (So et al. 2021).
#include "example.h"

struct SquaredRelu : rp::autograd::Function<SquaredRelu> {
  static constexpr const char* name = "squared_relu";
  rp::Tensor forward(const rp::Tensor& x) {
    const rp::Tensor positive = rp::relu(x);
    save(positive);
    return rp::square(positive);
  }
  rp::TensorList backward(const rp::TensorList& dy) { return {dy[0] * saved(0) * 2.0}; }
};

int main() {
  const rp::Tensor checked = (wave({3, 4}, 0.7) + 0.1).to(rp::DType::f64).set_requires_grad();
  rp::gradcheck([](const rp::TensorList& in) { return rp::TensorList{SquaredRelu::apply(in[0])}; },
                {checked});

  const rp::Tensor x = rp::linspace(-2, 2, 64).reshape({64, 1}), y = rp::sin(x * 2);
  rp::nn::Linear first(1, 16), second(16, 1);
  fill({first.weight, first.bias, second.weight, second.bias});
  rp::optim::Sgd optimizer({first.weight, first.bias, second.weight, second.bias}, {.lr = 0.05});
  for (int step = 0; step < 100; ++step) {
    const rp::Tensor loss = rp::mse_loss(second(SquaredRelu::apply(first(x))), y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step % 25 == 0) report("loss", loss.item());
  }
}
