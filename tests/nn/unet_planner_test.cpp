// A UNet planned for a memory budget: its skips are counted from where they are made to where they are read.
// slow on the device cuda
// slow in asan
#include <gtest/gtest.h>

#include "reprise/nn/models/unet.h"
#include "reprise/nn/optim/sgd.h"
#include "reprise/tests/autograd/recompute/support.h"

namespace reprise::nn {
namespace {

using recompute::GradientMemory;
using recompute::Plan;
using testing::same_bits;
using testing::test_device;

Allocator& memory() { return allocator(test_device()); }

/// A model whose activations are most of its memory, and what trains it.
struct Training {
  UNet model;
  optim::Sgd optimizer;
  Tensor images, targets;

  explicit Training(const RecomputeStrategy& strategy = {}, UNetUp up = UNetUp::bilinear)
      : model((manual_seed(3), UNetOptions{.features = 16, .depth = 2, .up = up, .recompute = strategy}),
              test_device()),
        optimizer(model.parameters(), {.lr = 0.1}),
        images(testing::numbers({2, 3, side(), side()})),
        targets(zeros({2 * side() * side()}, DType::i64, test_device())) {}

  static int64_t side() { return test_device().is_cuda() ? 8 : 32; }
  Tensor loss() {
    Tensor logits = permute(model(images), {0, 2, 3, 1});
    return cross_entropy(reshape(logits, {targets.numel(), 2}), targets);
  }
  TensorList run(int steps) {
    TensorList losses;
    for (int step = 0; step < steps; ++step) {
      losses.push_back(loss());
      losses.back().backward();
      losses.back() = losses.back().detach().clone();
      optimizer.step();
      optimizer.zero_grad();
    }
    return losses;
  }
  int64_t measured_peak(const Plan& plan) {
    model.set_recompute(plan);
    memory().reset_peaks();
    run(1);
    return int64_t(memory().stats().peak_held);
  }
};

// What neither neighbour keeps, the input of an interpolation, is counted although it is gone, and a skip's gradient where it
// may be there: up to a tenth too much.
TEST(UNetPlanner, PredictsAboutTheAllocatorsPeakOfAStep) {
  for (UNetUp up : {UNetUp::bilinear, UNetUp::transposed}) {
    if (test_device().is_cuda() && up == UNetUp::transposed) continue;  // the emulated device takes its time
    Training training({}, up);
    training.run(1);
    auto clock = [seconds = 0.0]() mutable { return seconds += 1; };  // no plan depends on the machine
    recompute::Chain chain = training.model.profile(training.images, {.repeats = 1, .clock = clock});
    std::vector<Plan> plans{recompute::plan_none(5),
                            recompute::plan_every(5, 1),
                            {{0, 3, true}, {3, 5}},
                            {{0, 5, true}},
                            {{0, 1, true}, {1, 4, true}, {4, 5, true}},
                            {{0, 1, true}, {1, 4, true, {{1, 2}, {2, 3, true}, {3, 4}}}, {4, 5}},
                            {{0, 1}, {1, 4, true, {{1, 3, true}, {3, 4}}}, {4, 5}}};
    if (!test_device().is_cuda())
      for (const recompute::Planned& planned : recompute::frontier(chain)) plans.push_back(planned.plan);
    for (const Plan& plan : plans) {
      const double ratio = double(simulate(plan, chain).peak_bytes) / double(training.measured_peak(plan));
      EXPECT_GE(ratio, 0.99) << to_string(plan);
      EXPECT_LE(ratio, 1.1) << to_string(plan);
    }
  }
}

// The gradient of a skip is a part of the one of the stage's joined input, all of which waits with it: twice the skip, as the
// other half has as many channels. Beside it the stage that made the skip keeps its own result, for its relu.
TEST(UNetPlanner, CountsWhatTheGradientOfASkipHolds) {
  Training training;
  const recompute::Chain chain = training.model.profile(training.images, {.repeats = 1});
  const recompute::Stage &maker = chain.stages[0], &between = chain.stages[2];
  ASSERT_EQ(maker.skip_to, 4);
  EXPECT_GE(maker.workspace_backward_bytes, 3 * maker.boundary_bytes);
  EXPECT_GE(between.workspace_unsaved_bytes,  // the gradients of both skips
            2 * maker.boundary_bytes + 2 * chain.stages[1].boundary_bytes);
}

TEST(UNetPlanner, KnowsWhichStageReadsASkip) {
  Training training;
  recompute::Chain chain = training.model.profile(training.images, {.repeats = 1});
  std::vector<int64_t> skips;
  for (const recompute::Stage& stage : chain.stages) skips.push_back(stage.skip_to);
  EXPECT_EQ(skips, (std::vector<int64_t>{4, 3, 0, 0, 0}));
  EXPECT_EQ(chain.given_bytes(0, 3),  // x2, and the skips x0 and x1
            chain.stages[0].boundary_bytes + chain.stages[1].boundary_bytes + chain.stages[2].boundary_bytes);
  EXPECT_EQ(chain.given_bytes(1, 4), chain.stages[3].boundary_bytes);
  NamedTensors before;
  for (const auto& [name, tensor] : training.model.state_dict())
    before.emplace_back(name, tensor.detach().clone());
  training.model.profile(training.images, {.repeats = 1});
  NamedTensors after = training.model.state_dict();
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(same_bits(after[i].second.detach(), before[i].second))
        << before[i].first << ": statistics too";
}

TEST(UNetPlanner, PlansByItselfWithinAHardLimitToTheSameBits) {
  const TensorList want = Training().run(2);
  size_t budget = 0;
  {
    Training training;
    TensorList later;  // the state that it expects of an optimizer
    for (const Tensor& parameter : training.model.parameters())
      for (int i = 0; i < 2; ++i)
        later.push_back(Tensor::empty(parameter.shape(), DType::f32, test_device()));
    const auto all =
        recompute::frontier(training.model.profile(training.images, {.gradients = GradientMemory::held}));
    budget = size_t(all.front().cost.peak_bytes + all.back().cost.peak_bytes) / 2;
  }
  Training training({.kind = RecomputeStrategy::Kind::automatic, .memory_budget = budget});
  memory().empty_cache();
  memory().set_limit(budget);
  const TensorList got = training.run(2);
  memory().set_limit(0);
  EXPECT_NE(training.model.recompute_plan(), recompute::plan_none(5));
  EXPECT_TRUE(same_bits(got, want));
}

}  // namespace
}  // namespace reprise::nn
