// A small model built and trained through the one header; what light_header.py measures is how much there is to compile.
#include <reprise/reprise.h>

namespace rp = reprise;

int main() {
  rp::manual_seed(1337);
  rp::nn::Gpt model({.vocab_size = 11, .context = 8, .layers = 2, .heads = 2, .width = 16});
  rp::optim::AdamW optimizer(model.parameters(), {.lr = 1e-3, .weight_decay = 0.1});
  auto tokens = rp::arange(8).reshape({1, 8});
  for (int step = 0; step < 3; ++step) {
    auto loss = rp::cross_entropy(model(tokens).reshape({8, 11}), tokens.reshape({8}));
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
  }
}
