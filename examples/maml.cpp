// Model-agnostic meta-learning (Finn et al. 2017): weights from which one step fits any of several sines.
#include "example.h"

rp::Tensor predict(const rp::TensorList& w, const rp::Tensor& x) {
  return rp::linear(rp::tanh(rp::linear(x, w[0], w[1])), w[2], w[3]);
}

int main() {
  rp::TensorList weights{rp::zeros({24, 1}), rp::zeros({24}), rp::zeros({1, 24}), rp::zeros({1})};
  fill(weights);
  for (const rp::Tensor& w : weights) w.set_requires_grad();
  rp::optim::AdamW optimizer(weights, {.lr = 1e-2, .weight_decay = 0});
  const rp::Tensor x = rp::linspace(-3, 3, 20).reshape({20, 1}),
                   new_x = rp::linspace(-2.9, 3.1, 20).reshape({20, 1});
  for (int step = 0; step < 60; ++step) {
    optimizer.zero_grad();
    double total = 0;
    for (int task = 0; task < 4; ++task) {
      const rp::Tensor loss = rp::mse_loss(predict(weights, x), rp::sin(x + task * 0.5));
      const rp::TensorList slopes = rp::grad({loss}, weights, {}, {.create_graph = true});
      rp::TensorList adapted;
      for (size_t i = 0; i < weights.size(); ++i) adapted.push_back(weights[i] - slopes[i] * 0.1);
      const rp::Tensor after = rp::mse_loss(predict(adapted, new_x), rp::sin(new_x + task * 0.5)) / 4.0;
      after.backward();
      total += after.item();
    }
    optimizer.step();
    if (step % 15 == 0) report("loss", total);
  }
}
