// Generation within checkpointed regions: a cache that a region fills is refused when it is played again, and `generate`, whose cache is
// its own, gives each play the same tokens.
#include "reprise/autograd/engine.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/recompute/checkpoint.h"
#include "reprise/nn/generation/generate.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::expect_error;
using testing::same_bits;
using testing::test_device;

constexpr CheckpointMode modes[] = {CheckpointMode::non_reentrant, CheckpointMode::reentrant};

nn::Gpt small_gpt() {
  manual_seed(3);
  return nn::Gpt({.vocab_size = 61, .context = 16, .layers = 2, .heads = 2, .width = 32}, test_device());
}

TEST(GenerateInRegions, ACacheIsNotFilledTwice) {
  nn::Gpt model = small_gpt();
  model.eval();
  const Tensor tokens = Tensor::from<int64_t>({1, 2}, {1, 2}, test_device());
  for (const CheckpointMode mode : modes) {
    nn::KvCache cache(2, 1, 16);
    const Tensor x = ones({1}, DType::f32, test_device()).set_requires_grad();
    const Tensor y = checkpoint(
        [&](const Tensor& w) {
          Tensor seen;
          {
            NoGrad unrecorded;
            seen = sum(model.next_logits(tokens, cache));
          }
          return exp(w * seen) * w;
        },
        x, {.mode = mode});
    EXPECT_EQ(cache.length(0), 2);
    expect_error([&] { y.backward(); }, "a checkpoint plays its region again, and fn changes a tensor",
                 "in place that its first run has changed");
  }
}

TEST(GenerateInRegions, GenerateGivesEachPlayTheSameTokens) {
  nn::Gpt model = small_gpt();
  model.h.set_recompute(parse_strategy("full"));
  const std::vector<std::vector<int32_t>> prompts = {{1, 2, 3}};
  int64_t plays = 0;
  const auto f = [&](const Tensor& w) {
    ++plays;
    const auto added = generate(model, prompts, {.tokens = 12, .seed = 1});
    Tensor y = w;
    for (const int32_t token : added[0]) y = exp(y * (1e-2 * double(token) / 61));
    return y;
  };
  const auto gradient = [&](const std::function<Tensor(const Tensor&)>& run) {
    const Tensor x = ones({1}, DType::f32, test_device()).set_requires_grad();
    run(x).backward();
    return x.grad();
  };
  const Tensor want = gradient(f);
  EXPECT_EQ(plays, 1);
  for (const CheckpointMode mode : modes) {
    plays = 0;
    EXPECT_TRUE(same_bits(gradient([&](const Tensor& x) { return checkpoint(f, x, {.mode = mode}); }), want));
    EXPECT_EQ(plays, 2) << "the region is played again";
  }
}

}  // namespace
}  // namespace reprise
