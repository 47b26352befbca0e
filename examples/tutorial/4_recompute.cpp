// Chapter 4: recompute. Blocks whose activations are not kept but computed again: less memory, the same bits.
#include <reprise/reprise.h>

#include <cstdio>

namespace rp = reprise;

// A step of a GPT, from the same weights each time: its gradients, and the most bytes that it held.
struct Step {
  rp::TensorList gradients{};
  size_t peak = 0;
};
Step step(const char* strategy) {
  rp::manual_seed(1);
  rp::nn::Gpt model({.vocab_size = 64,
                     .context = 64,
                     .layers = 8,
                     .heads = 4,
                     .width = 64,
                     .dropout = 0.1,
                     .recompute = rp::parse_strategy(strategy)});
  const rp::Tensor tokens = rp::randint(0, 64, {8, 64});
  rp::allocator({}).reset_peaks();
  rp::cross_entropy(model(tokens), tokens).backward();
  Step result{.peak = rp::allocator({}).stats().peak_held};
  for (const rp::Tensor& p : model.parameters()) result.gradients.push_back(p.grad());
  return result;
}

bool same_bits(const Step& a, const Step& b) {
  for (size_t i = 0; i < a.gradients.size(); ++i)
    if (a.gradients[i].to_vector<float>() != b.gradients[i].to_vector<float>()) return false;
  return true;
}

int main() {
  const Step plain = step("none");
  std::printf("none: %.1f MiB\n", double(plain.peak) / 1048576);
  bool is_well = true;
  for (const char* strategy : {"selective", "every:2", "sqrt", "full"}) {
    const Step other = step(strategy);
    std::printf("%s: %.1f MiB, %s\n", strategy, double(other.peak) / 1048576,
                same_bits(plain, other) ? "the same gradients" : "other gradients");
    is_well = is_well && same_bits(plain, other) && other.peak < plain.peak;
  }

  // Any function of tensors can be a region.
  const rp::Tensor x = rp::randn({64, 64}).set_requires_grad();
  const rp::Tensor y = rp::checkpoint([](const rp::Tensor& t) { return rp::tanh(rp::exp(t * 0.1) * t); }, x);
  y.sum().backward();

  // And how much memory the strategies would take, before a batch is chosen.
  rp::nn::Gpt model({.vocab_size = 64, .context = 64, .layers = 8, .heads = 4, .width = 64});
  auto loss = [&](int64_t rows) {
    const rp::Tensor tokens = rp::randint(0, 64, {rows, 64});
    return rp::cross_entropy(model(tokens), tokens);
  };
  const int64_t rows =
      rp::max_batch({.model = model, .loss = loss, .blocks = &model.h, .budget = size_t(64) << 20},
                    rp::parse_strategy("full"));
  std::printf("rows within 64 MiB: %d\n", int(rows));
  return is_well && rows > 8 ? 0 : 1;
}
