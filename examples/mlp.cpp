// A classifier of two spirals: layers, a loss, an optimizer.
#include "example.h"

int main() {
  const rp::Tensor t = rp::linspace(0.5, 3, 100).reshape({100, 1});
  const rp::Tensor arm = rp::concat({t * rp::cos(t * 3), t * rp::sin(t * 3)}, 1);
  const rp::Tensor x = rp::concat({arm, -arm}, 0), y = rp::arange(200).to(rp::DType::f32);
  const rp::Tensor label = rp::greater_equal(y, rp::scalar(100)).to(rp::DType::i64);

  rp::nn::Sequential net;
  net.add<rp::nn::Linear>(2, 32);
  net.add<rp::nn::Activate>(rp::Activation::silu);
  net.add<rp::nn::Linear>(32, 32);
  net.add<rp::nn::Activate>(rp::Activation::silu);
  net.add<rp::nn::Linear>(32, 2);
  fill(net.parameters());
  rp::optim::AdamW optimizer(net.parameters(), {.lr = 1e-2, .weight_decay = 0});
  for (int step = 0; step < 200; ++step) {
    const rp::Tensor loss = rp::cross_entropy(net(x), label);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step % 40 == 0) report("loss", loss.item());
  }
  rp::NoGrad guard;
  report("accuracy", rp::equal(rp::argmax(net(x), -1), label).to(rp::DType::f32).mean().item());
}
