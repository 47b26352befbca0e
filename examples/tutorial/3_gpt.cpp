// Chapter 3: a language model. A small GPT learns to sort digits: it reads "3142" and goes on with "1234".
#include <reprise/reprise.h>

#include <algorithm>
#include <cstdio>

namespace rp = reprise;

constexpr int64_t digits = 4, values = 6;

// Token rows such as 3 1 4 2 1 2 3 4: digits, then the same ones in order.
rp::Tensor draw(int64_t rows) {
  const rp::Tensor given = rp::randint(0, values, {rows, digits});
  return rp::concat({given, rp::sort(given, 1).values}, 1);
}

// Of the second half alone: what the digits are cannot be learned.
rp::Tensor loss_of(rp::nn::Gpt& model, const rp::Tensor& rows) {
  const rp::Tensor logits = model(rows.slice(1, 0, 2 * digits - 1));
  return rp::cross_entropy(logits.slice(1, digits - 1, 2 * digits - 1), rows.slice(1, digits, 2 * digits));
}

int main() {
  rp::manual_seed(1);
  rp::nn::Gpt model({.vocab_size = values, .context = 2 * digits, .layers = 2, .heads = 4, .width = 32});
  rp::optim::AdamW optimizer(rp::optim::decay_matrices(model, 3e-3, 0.01));
  const rp::optim::Schedule schedule{.lr = 3e-3, .steps = 400};
  for (int step = 0; step < 400; ++step) {
    optimizer.set_lr(schedule(step));
    const rp::Tensor loss = loss_of(model, draw(64));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step(rp::optim::clip_scale(rp::optim::grad_norm(model.parameters()), 1.0));
    if (step % 100 == 0) std::printf("step %d: loss %.3f\n", step, loss.item());
  }

  int right = 0;
  for (int i = 0; i < 50; ++i) {
    const rp::Tensor row = draw(1).select(0, 0);
    const std::vector<int32_t> all = row.to_vector<int32_t>();
    const std::vector<int32_t> prompt(all.begin(), all.begin() + digits),
        want(all.begin() + digits, all.end());
    const auto answer =
        rp::generate(model, {{prompt}}, {.tokens = digits, .sampling = {.temperature = 0}})[0];
    right += answer == want;
  }
  std::printf("sorted: %d of 50\n", right);
  return right >= 40 ? 0 : 1;
}
