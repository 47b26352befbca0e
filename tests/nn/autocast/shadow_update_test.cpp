// How often the shadows of weights are made anew in training.
#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/shadow.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/grad_scaler.h"
#include "reprise/nn/optim/sgd.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::same_bits;
using testing::test_device;

nn::Gpt small_gpt() {
  manual_seed(3);
  return nn::Gpt({.vocab_size = 17, .context = 8, .layers = 2, .heads = 2, .width = 16}, test_device());
}

Tensor tokens() { return arange(2 * 8, DType::i64, test_device()).reshape({2, 8}); }

Tensor loss_of(nn::Gpt& model, DType dtype) {
  amp::Autocast scope(test_device(), dtype);
  return cross_entropy(model(tokens()), tokens());
}

// Where the shadow of each matrix that a product reads lies; looked up, not made, where it is current.
std::vector<uint64_t> shadows_of(const nn::Gpt& model, DType dtype) {
  std::vector<uint64_t> places;
  for (const auto& [name, parameter] : model.named_parameters()) {
    if (parameter.rank() != 2 || name.starts_with("wpe")) continue;
    const Tensor shadow = autograd::shadow_of(parameter, dtype, amp::Shadows::step);
    EXPECT_TRUE(same_bits(shadow, parameter.detach().to(dtype))) << name;
    places.push_back(shadow.storage()->id());
  }
  return places;
}

// For each update whether the shadows of its first micro-batch are those of the update before.
template <class Optimizer>
std::vector<bool> kept(Optimizer&& optimizer, nn::Gpt& model, DType dtype) {
  std::vector<bool> same;
  std::vector<uint64_t> before;
  for (int update = 0; update < 3; ++update) {
    std::vector<uint64_t> first;
    for (int micro = 0; micro < 4; ++micro) {
      loss_of(model, dtype).backward();
      if (micro == 0) first = shadows_of(model, dtype);
      EXPECT_EQ(shadows_of(model, dtype), first) << "micro-batches share the shadows of an update";
    }
    if (update > 0) same.push_back(first == before);
    before = first;
    optimizer.step();
    optimizer.zero_grad();
  }
  return same;
}

TEST(Autocast, CastsEachWeightOncePerUpdate) {
  for (const char* strategy : {"none", "full", "selective"}) {  // replays read what the first run made
    nn::Gpt model = small_gpt();
    model.h.set_recompute(parse_strategy(strategy));
    EXPECT_EQ(kept(optim::Sgd(model.parameters(), {.lr = 0.1}), model, DType::bf16),
              std::vector<bool>({false, false}))
        << strategy;
  }
}

TEST(Autocast, AdamWWritesTheShadowsOfWhatItUpdates) {
  for (DType dtype : {DType::bf16, DType::f16}) {
    nn::Gpt model = small_gpt();
    EXPECT_EQ(kept(optim::AdamW(model.parameters(), {.lr = 1e-2}), model, dtype),
              std::vector<bool>({true, true}));
  }
}

TEST(Autocast, AnUpdateThatIsSkippedLeavesTheShadows) {
  nn::Gpt model = small_gpt();
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
  optim::GradScaler scaler(test_device(), {.init_scale = 1024});
  const auto before = [&] {
    scaler.scale(loss_of(model, DType::f16)).backward();
    return shadows_of(model, DType::f16);
  }();
  for (const Tensor& p : model.parameters()) p.grad().mul_(std::numeric_limits<double>::infinity());
  scaler.step(optimizer);
  scaler.update();
  EXPECT_NE(scaler.read().found, 0);
  EXPECT_EQ(shadows_of(model, DType::f16), before);
}

// A change by anybody else, between updates, makes a new one.
TEST(Autocast, AShadowThatIsStaleIsNotWritten) {
  nn::Gpt model = small_gpt();
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
  loss_of(model, DType::bf16).backward();
  const std::vector<uint64_t> before = shadows_of(model, DType::bf16);
  {
    NoGrad guard;
    for (const Tensor& p : model.parameters()) p.mul_(1.5);
  }
  optimizer.step();
  const std::vector<uint64_t> after = shadows_of(model, DType::bf16);
  for (size_t i = 0; i < before.size(); ++i) EXPECT_NE(after[i], before[i]);
}

}  // namespace
}  // namespace reprise
