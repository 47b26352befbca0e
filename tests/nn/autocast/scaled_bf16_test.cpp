// A loss scale is a power of two, so that in bf16, whose range is that of f32, it changes no bit of a whole model's training.
// slow on the device cuda
#include <gtest/gtest.h>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/grad_scaler.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/tests/nn/small_models.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise::nn {
namespace {

using testing::random_tokens;
using testing::same_bits;
using testing::test_device;

// Unscaled gradients of the last update, then weights.
TensorList train(double scale, bool pure) {
  manual_seed(5);
  Gpt model({.vocab_size = 65, .context = 16, .layers = 2, .heads = 2, .width = 32}, test_device());
  if (pure) to_precision(model, DType::bf16);
  for (const Tensor& parameter : model.parameters()) parameter.set_grad_dtype(DType::f32);
  optim::AdamW optimizer(optim::decay_matrices(model, 1e-2, 0.1));
  std::optional<optim::GradScaler> scaler;
  if (scale > 0) scaler.emplace(test_device(), optim::GradScalerOptions{.init_scale = scale});
  TensorList seen;
  for (uint64_t step = 0; step < 20; ++step) {
    const Tensor tokens = random_tokens({2, 16}, 65, step).to(test_device());
    Tensor loss;
    {
      const auto norms = pure ? amp::Norms::as_given : amp::Norms::f32;
      amp::Autocast scope(test_device(), DType::bf16, {.norms = norms});
      loss = cross_entropy(model(tokens), tokens);
    }
    scaler ? scaler->scale(loss).backward() : loss.backward();
    seen.clear();
    for (const Tensor& parameter : model.parameters())
      seen.push_back((parameter.grad() * (scale > 0 ? 1 / scale : 1)).detach());
    if (scaler) {
      scaler->step(optimizer);
      scaler->update();
    } else {
      optimizer.step();
    }
    optimizer.zero_grad();
  }
  for (const Tensor& parameter : model.parameters()) seen.push_back(parameter.detach().clone());
  return seen;
}

TEST(GradScaler, PowersOfTwoChangeNoBitOfABf16Gpt) {
  for (bool pure : {false, true}) {
    const TensorList want = train(0, pure);
    for (double scale : {1.0, 0x1p8, 65536.0, 0x1p24}) {
      const TensorList got = train(scale, pure);
      EXPECT_TRUE(same_bits(got, want)) << "at scale " << scale << (pure ? ", pure" : "");
    }
  }
}

}  // namespace
}  // namespace reprise::nn
