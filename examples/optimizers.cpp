// Optimizers of one's own: Lion (Chen et al. 2023) for vectors, Muon (Jordan et al. 2024) for matrices.
#include "example.h"

// About the nearest matrix with orthonormal rows, by a polynomial of Newton and Schulz.
rp::Tensor orthogonal(rp::Tensor x) {
  const bool tall = x.shape()[0] > x.shape()[1];
  if (tall) x = x.transpose(0, 1);
  x = x / (rp::norm(x) + 1e-7);
  for (int i = 0; i < 5; ++i) {
    const rp::Tensor a = x.matmul(x.transpose(0, 1));
    x = x * 3.4445 + (a * -4.7750 + a.matmul(a) * 2.0315).matmul(x);
  }
  return tall ? x.transpose(0, 1) : x;
}

struct LionAndMuon {
  rp::TensorList parameters, momenta{};
  void step(double lr) {
    rp::NoGrad guard;
    for (const rp::Tensor& p : parameters)
      if (momenta.size() < parameters.size()) momenta.push_back(rp::zeros_like(p));
    for (size_t i = 0; i < parameters.size(); ++i) {
      const rp::Tensor &p = parameters[i], &m = momenta[i], g = p.grad();
      if (p.shape().size() == 2) {
        m.mul_(0.95).add_(g);
        p.add_(orthogonal(g + m * 0.95), -lr);
      } else {
        p.add_(rp::sign(m * 0.9 + g * 0.1), -lr * 0.1);
        m.mul_(0.99).add_(g, 0.01);
      }
      p.set_grad({});
    }
  }
};

int main() {
  rp::nn::Linear first(8, 32), second(32, 4);
  LionAndMuon optimizer{{first.weight, first.bias, second.weight, second.bias}};
  fill(optimizer.parameters);
  const rp::Tensor x = wave({64, 8}, 0.7), y = wave({64, 4}, 0.31);
  for (int step = 0; step < 60; ++step) {
    const rp::Tensor loss = rp::mse_loss(second(rp::relu(first(x))), y);
    loss.backward();
    optimizer.step(0.01);
    if (step % 15 == 0) report("loss", loss.item());
  }
}
