// The critic of a WGAN with a gradient penalty (Gulrajani et al. 2017): the gradient of a gradient.
#include "example.h"

int main() {
  const rp::Tensor real = wave({64, 2}, 0.37) + 2.0, fake = wave({64, 2}, 0.81) - 1.0;
  const rp::Tensor mix = (wave({64, 1}, 1.3) + 1.0) / 2.0;

  rp::nn::Sequential critic;
  critic.add<rp::nn::Linear>(2, 32);
  critic.add<rp::nn::Activate>(rp::Activation::silu);
  critic.add<rp::nn::Linear>(32, 1);
  fill(critic.parameters());
  rp::optim::AdamW optimizer(critic.parameters(),
                             {.lr = 1e-2, .beta1 = 0.5, .beta2 = 0.9, .weight_decay = 0});
  for (int step = 0; step < 60; ++step) {
    const rp::Tensor between = (mix * real + (1.0 - mix) * fake).set_requires_grad();
    const rp::Tensor slope = rp::grad({critic(between).sum()}, {between}, {}, {.create_graph = true})[0];
    const rp::Tensor penalty = rp::square(rp::norm(slope, {1}) - 1.0).mean();
    const rp::Tensor loss = critic(fake).mean() - critic(real).mean() + penalty * 10.0;
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step % 15 == 0) report("loss", loss.item()), report("penalty", penalty.item());
  }
}
