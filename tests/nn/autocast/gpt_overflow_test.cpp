// A GPT in f16 whose gradients overflow once: against the same updates without a GradScaler, and resumed at each step.
// slow on the device cuda
#include <limits>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/ops.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/grad_scaler.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::same_bits;
using testing::test_device;

constexpr double kScale = 65536;

struct Training {
  nn::Gpt model = seeded();
  optim::AdamW optimizer{model.parameters(), {.lr = 1e-2}};
  optim::GradScaler scaler{test_device(), {.init_scale = kScale}};

  static nn::Gpt seeded() {
    manual_seed(5);
    return nn::Gpt({.vocab_size = 17, .context = 8, .layers = 2, .heads = 2, .width = 16}, test_device());
  }
  Tensor loss(int step) {
    std::vector<int64_t> ids;
    for (int i = 0; i < 16; ++i) ids.push_back((step * 5 + i * i) % 17);
    const Tensor tokens = Tensor::from(ids, {2, 8}).to(test_device());
    amp::Autocast scope(test_device(), DType::f16);
    return cross_entropy(model(tokens), tokens);
  }
  /// One step, with infinity as one number of one gradient where the step is bad.
  void step(int step, bool is_bad) {
    optimizer.zero_grad();
    scaler.scale(loss(step)).backward();
    if (is_bad) {
      const Tensor gradient = model.parameters()[2].grad().reshape({-1});
      gradient.slice(0, 3, 4).fill_(std::numeric_limits<double>::infinity());
    }
    scaler.step(optimizer, {.clip = 1});
    scaler.update();
  }
  /// The same update by hand: scaled, divided again (exactly: a power of two), clipped.
  void step_by_hand(int step, double scale) {
    optimizer.zero_grad();
    (loss(step) * scale).backward();
    for (const Tensor& p : model.parameters()) p.grad().mul_(1 / scale);
    optimizer.step(optim::clip_scale(optim::grad_norm(model.parameters()), 1));
  }
  nn::NamedTensors state() const {
    nn::NamedTensors all = model.state_dict();
    for (const auto& one : optimizer.state_dict()) all.push_back(one);
    for (auto& [name, x] : all) x = x.detach().clone();
    return all;
  }
};

void expect_skips(int bad) {
  Training run, want;
  const std::string what = "bad step " + std::to_string(bad);
  run.optimizer.allocate_state(), want.optimizer.allocate_state();  // a skipped first step makes it too
  for (int step = 0; step < 10; ++step) {
    const nn::NamedTensors before = run.state();
    run.step(step, step == bad);
    if (step == bad)
      EXPECT_TRUE(same_bits(run.state(), before)) << what;
    else
      want.step_by_hand(step, step < bad ? kScale : kScale / 2);
    EXPECT_EQ(run.scaler.read().scale, step < bad ? kScale : kScale / 2) << what;
    EXPECT_TRUE(same_bits(run.state(), want.state())) << what + ", step " + std::to_string(step);
  }
  EXPECT_EQ(run.scaler.read().skipped, 1) << what;
}

// On a device that may be emulated, fewer steps.
TEST(GptF16Overflow, PlantedSkipsHalvesResumes) {
  const int every = test_device().is_cpu() ? 1 : 6;
  for (int bad = 0; bad < 10; bad += every) expect_skips(bad);
  Training whole;
  constexpr int steps = 20, bad = 7;
  for (int step = 0; step < steps; ++step) whole.step(step, step == bad);
  for (int stop = 0; stop < steps; stop += every) {
    Training first, second;
    for (int step = 0; step < stop; ++step) first.step(step, step == bad);
    second.model.load_state_dict(first.model.state_dict());
    second.optimizer.load_state_dict(first.optimizer.state_dict());
    second.scaler.load_state_dict(first.scaler.state_dict());
    for (int step = stop; step < steps; ++step) second.step(step, step == bad);
    EXPECT_TRUE(same_bits(second.state(), whole.state())) << "resumed after " + std::to_string(stop);
    EXPECT_TRUE(same_bits(second.scaler.state_dict(), whole.scaler.state_dict())) << "resumed scale";
  }
}

}  // namespace
}  // namespace reprise
