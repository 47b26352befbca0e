// A Gpt whose weights and activations are bf16 or f16, trained with master copies of f32.
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/tests/nn/small_models.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise::nn {
namespace {

using testing::random_tokens;
using testing::same_bits;

// Losses of updates on four batches in turn; what the optimizer keeps, at the end.
struct Trained {
  std::vector<double> losses;
  NamedTensors state;
};

Trained train(DType dtype, uint64_t steps, double dropout = 0) {
  manual_seed(5);
  // Heads of 16: the tensor cores' attention on the device.
  const Device device = testing::test_device();
  Gpt model({.vocab_size = 65, .context = 24, .layers = 2, .heads = 2, .width = 32, .dropout = dropout},
            device);
  if (dtype != DType::f32) model.to(dtype);
  optim::AdamW optimizer(optim::decay_matrices(model, 1e-2, 0.1));
  Trained run;
  for (uint64_t step = 0; step < steps; ++step) {
    Tensor tokens = random_tokens({2, 24}, 65, step % 4).to(device);
    Tensor loss = cross_entropy(model(tokens), random_tokens({2, 24}, 65, 10 + step % 4).to(device));
    loss.backward();
    for (const auto& [name, parameter] : model.named_parameters())
      EXPECT_EQ(parameter.grad().dtype(), dtype) << name;
    optimizer.step(optim::clip_scale(optim::grad_norm(model.parameters()), 1.0));
    optimizer.zero_grad();
    run.losses.push_back(loss.item());
  }
  for (const auto& [name, tensor] : optimizer.state_dict()) run.state.emplace_back(name, tensor.clone());
  return run;
}

TEST(GptHalf, TrainsToTheLossesOfF32) {
  const std::vector<double> want = train(DType::f32, 12).losses;
  for (DType dtype : {DType::bf16, DType::f16}) {
    const std::vector<double> got = train(dtype, 12).losses;
    // A loss near 4 is itself rounded, by 2^-7 in bf16, so are its logits; and early updates of Adam follow
    // the signs of gradients near 0.
    const double tolerance = dtype == DType::bf16 ? 0.06 : 0.03;
    for (size_t step = 0; step < want.size(); ++step)
      EXPECT_NEAR(got[step], want[step], tolerance) << dtype << ", step " << step;
    EXPECT_LT(got.back(), got.front() - 0.2) << dtype;
  }
}

TEST(GptHalf, GivesTheSameBitsAgain) {
  const Trained first = train(DType::bf16, 3, 0.1), second = train(DType::bf16, 3, 0.1);
  EXPECT_EQ(second.losses, first.losses);
  ASSERT_EQ(second.state.size(), first.state.size());
  for (size_t i = 0; i < first.state.size(); ++i)
    EXPECT_TRUE(same_bits(second.state[i].second, first.state[i].second)) << first.state[i].first;
}

}  // namespace
}  // namespace reprise::nn
