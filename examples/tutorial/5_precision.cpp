// Chapter 5: mixed precision. Products in 16 bits, weights and sums in 32, and a scale that keeps small gradients.
#include <reprise/reprise.h>

#include <cstdio>
#include <optional>

namespace rp = reprise;

// The loss of a GPT after some updates in a precision; f32 without a scope.
double train(std::optional<rp::DType> dtype) {
  rp::manual_seed(1);
  const rp::Device device;
  rp::nn::Gpt model({.vocab_size = 16, .context = 16, .layers = 2, .heads = 2, .width = 32}, device);
  rp::optim::AdamW optimizer(model.parameters(), {.lr = 3e-3});
  rp::optim::GradScaler scaler(device);
  double last = 0;
  for (int step = 0; step < 60; ++step) {
    // Counting: each token is the one before it plus 1.
    const rp::Tensor first = rp::randint(0, 16, {16, 1});
    const rp::Tensor row = first + rp::arange(17);
    const rp::Tensor tokens = row - rp::floor(row.to(rp::DType::f32) / 16).to(rp::DType::i64) * 16;
    rp::Tensor loss;
    {
      std::optional<rp::amp::Autocast> scope;
      if (dtype) scope.emplace(device, *dtype);
      loss = rp::cross_entropy(model(tokens.slice(1, 0, 16)), tokens.slice(1, 1, 17));
    }
    optimizer.zero_grad();
    if (dtype == rp::DType::f16) {
      scaler.scale(loss).backward();
      scaler.step(optimizer, {.clip = 1.0});
      scaler.update();
    } else {
      loss.backward();
      optimizer.step(rp::optim::clip_scale(rp::optim::grad_norm(model.parameters()), 1.0));
    }
    last = loss.item();
  }
  return last;
}

int main() {
  const double f32 = train({}), bf16 = train(rp::DType::bf16), f16 = train(rp::DType::f16);
  std::printf("f32: loss %.3f\nbf16: loss %.3f\nf16: loss %.3f\n", f32, bf16, f16);
  auto is_near = [&](double loss) { return loss < 1.5 * f32 + 0.05 && f32 < 1.5 * loss + 0.05; };
  return is_near(bf16) && is_near(f16) ? 0 : 1;
}
