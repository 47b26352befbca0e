// Low-rank adapters (Hu et al. 2021): a frozen layer learns a task by a product of two thin matrices beside it.
#include "example.h"

struct LoraLinear : rp::nn::Module {
  rp::nn::Linear base;
  rp::Tensor down, up;
  LoraLinear(int64_t in, int64_t out, int64_t rank) : base(in, out) {
    register_module("base", base);
    base.freeze();
    down = register_parameter("down", wave({rank, in}, 0.9, 0.1));
    up = register_parameter("up", rp::zeros({out, rank}));
  }
  rp::Tensor operator()(const rp::Tensor& x) { return base(x) + rp::linear(rp::linear(x, down), up); }
};

int main() {
  LoraLinear first(8, 32, 2), second(32, 4, 2);
  fill({first.base.weight, first.base.bias, second.base.weight, second.base.bias});
  const rp::Tensor frozen = first.base.weight.clone();
  const rp::TensorList adapters{first.down, first.up, second.down, second.up};
  const rp::Tensor x = wave({64, 8}, 0.7), y = wave({64, 4}, 0.31);
  rp::optim::AdamW optimizer(adapters, {.lr = 1e-2, .weight_decay = 0});
  for (int step = 0; step < 80; ++step) {
    const rp::Tensor loss = rp::mse_loss(second(rp::relu(first(x))), y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step % 20 == 0) report("loss", loss.item());
  }
  int64_t trained = 0;
  for (const rp::Tensor& adapter : adapters) trained += adapter.numel();
  report("trained", double(trained));
  report("moved", rp::abs(first.base.weight - frozen).sum().item());
}
