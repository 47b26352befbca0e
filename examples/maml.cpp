// Model-agnostic meta-learning (Finn et al. 2017): weights from which one step fits any of several sines.
#include "example.h"

int main() {
  rp::nn::Sequential net;
  net.add<rp::nn::Linear>(1, 24);
  net.add([](const rp::Tensor& x) { return rp::tanh(x); });
  net.add<rp::nn::Linear>(24, 1);
  const rp::TensorList weights = net.parameters();
  fill(weights);
  rp::optim::AdamW optimizer(weights, {.lr = 1e-2, .weight_decay = 0});
  const rp::Tensor x = rp::linspace(-3, 3, 20).reshape({20, 1}),
                   new_x = rp::linspace(-2.9, 3.1, 20).reshape({20, 1});
  for (int step = 0; step < 60; ++step) {
    optimizer.zero_grad();
    double total = 0;
    for (int task = 0; task < 4; ++task) {
      const rp::Tensor loss = rp::mse_loss(net(x), rp::sin(x + task * 0.5));
      const rp::TensorList slopes = rp::grad({loss}, weights, {}, {.create_graph = true});
      rp::nn::NamedTensors adapted = net.named_parameters();
      for (size_t i = 0; i < adapted.size(); ++i) adapted[i].second = weights[i] - slopes[i] * 0.1;
      const rp::Tensor y = rp::functional_call(net, adapted, new_x);
      const rp::Tensor after = rp::mse_loss(y, rp::sin(new_x + task * 0.5)) / 4.0;
      after.backward();
      total += after.item();
    }
    optimizer.step();
    if (step % 15 == 0) report("loss", total);
  }
}
