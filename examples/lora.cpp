// Low-rank adapters (Hu et al. 2021): frozen layers of a model learn a task by a product of two thin matrices beside each.
#include "example.h"

struct Lora : rp::nn::Layer {
  rp::nn::Linear& base;
  rp::Tensor down, up;
  Lora(rp::nn::Linear& of, int64_t rank) : base(of) {
    register_module("base", base);
    base.freeze();
    down = register_parameter("down", wave({rank, base.weight.size(1)}, 0.9, 0.1));
    up = register_parameter("up", rp::zeros({base.weight.size(0), rank}));
  }
  rp::Tensor forward(const rp::Tensor& x) override {
    return base.forward(x) + rp::linear(rp::linear(x, down), up);
  }
};

struct Net : rp::nn::Module {
  rp::nn::Linear first{8, 32}, second{32, 4};
  Net() {
    register_module("first", first);
    register_module("second", second);
  }
  rp::Tensor operator()(const rp::Tensor& x) { return second(rp::relu(first(x))); }
};

int main() {
  Net net;
  fill(net.parameters());
  const rp::Tensor frozen = net.first.weight.clone();
  for (const char* name : {"first", "second"})
    net.replace(name, std::make_shared<Lora>(net.at<rp::nn::Linear>(name), 2));
  rp::TensorList adapters = net.parameters();
  std::erase_if(adapters, [](const rp::Tensor& p) { return !p.requires_grad(); });
  const rp::Tensor x = wave({64, 8}, 0.7), y = wave({64, 4}, 0.31);
  rp::optim::AdamW optimizer(adapters, {.lr = 1e-2, .weight_decay = 0});
  for (int step = 0; step < 80; ++step) {
    const rp::Tensor loss = rp::mse_loss(net(x), y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step % 20 == 0) report("loss", loss.item());
  }
  int64_t trained = 0;
  for (const rp::Tensor& adapter : adapters) trained += adapter.numel();
  report("trained", double(trained));
  report("moved", rp::abs(net.first.weight - frozen).sum().item());
}
