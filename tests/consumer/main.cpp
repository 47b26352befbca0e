// What a user's first program does, built outside Reprise's own build: a model learns to repeat a sequence.
#include <reprise/reprise.h>

#include <cstdio>

#include "vector_kernel.h"

namespace rp = reprise;

int main() {
  rp::manual_seed(1337);
  rp::nn::Gpt model({.vocab_size = 11, .context = 8, .layers = 2, .heads = 2, .width = 16});
  rp::optim::AdamW optimizer(model.parameters(), {.lr = 1e-2, .weight_decay = 0.1});
  auto tokens = rp::arange(8).reshape({1, 8});
  double first = 0, last = 0;
  for (int step = 0; step < 20; ++step) {
    auto loss = rp::cross_entropy(model(tokens).reshape({8, 11}), tokens.reshape({8}));
    last = loss.item();
    if (step == 0) first = last;
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  std::printf("loss %.3f -> %.3f\n", first, last);
  std::vector<float> ramp(1003);
  for (size_t i = 0; i < ramp.size(); ++i) ramp[i] = float(i);
  triple(ramp);
  for (size_t i = 0; i < ramp.size(); ++i)
    if (ramp[i] != 3.0f * float(i)) return 1;
  return last < 0.9 * first ? 0 : 1;
}
