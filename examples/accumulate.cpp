// Gradients of several micro-batches, averages of the weights, and a run that goes on from its files.
#include "example.h"

struct Net : rp::nn::Linear {
  Net() : Linear(8, 4) { fill(parameters()); }
};

struct Run {
  Net net;
  rp::optim::AdamW optimizer{net.parameters(), {.lr = 1e-2, .weight_decay = 0.01}};
  rp::optim::Ema ema{net, 0.9};
  double train(int begin, int end) {
    double total = 0;
    for (int step = begin; step < end; ++step) {
      total = 0;
      for (int micro = 0; micro < 4; ++micro) {
        const rp::Tensor x = wave({16, 8}, 0.1 + step + micro * 0.2), y = rp::sin(x.slice(1, 0, 4) * 2);
        const rp::Tensor loss = rp::mse_loss(net(x), y) / 4.0;
        loss.backward();
        total += loss.item();
      }
      rp::optim::clip_grad_norm(net.parameters(), 1.0);
      optimizer.step();
      optimizer.zero_grad();
      ema.update();
    }
    return total;
  }
};

int main() {
  Run whole;
  report("loss", whole.train(0, 20));
  rp::save("accumulate.net.safetensors", whole.net);
  rp::save("accumulate.optimizer.safetensors", whole.optimizer);
  rp::save("accumulate.ema.safetensors", whole.ema);
  Run resumed;
  rp::load("accumulate.net.safetensors", resumed.net);
  rp::load("accumulate.optimizer.safetensors", resumed.optimizer);
  rp::load("accumulate.ema.safetensors", resumed.ema);
  report("loss", whole.train(20, 40));
  report("resumed", resumed.train(20, 40));
  report("average", resumed.ema.state_dict()[0].second.sum().item());
}
