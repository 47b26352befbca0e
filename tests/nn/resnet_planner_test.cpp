// A ResNet's plans, whose norms keep their own results for relu: what they are predicted to hold is what they hold.
// slow in asan
#include <gtest/gtest.h>

#include "reprise/nn/models/resnet.h"
#include "reprise/nn/optim/sgd.h"
#include "reprise/tests/autograd/recompute/support.h"

namespace reprise::nn {
namespace {

using recompute::Plan;
using testing::test_device;

Allocator& memory() { return allocator(test_device()); }

/// Four narrow blocks, two of them with a shortcut of their own, on images large enough for activations to count.
struct Training {
  ResNet model;
  optim::Sgd optimizer;
  Tensor images, targets;

  explicit Training(ResNetBlock block)
      : model((manual_seed(3), ResNetOptions{.channels = 3,
                                             .classes = 5,
                                             .width = 8,
                                             .blocks = {2, 2},
                                             .block = block,
                                             .stem = ResNetStem::cifar}),
              test_device()),
        optimizer(model.parameters(), {.lr = 0.1}),
        images(testing::numbers({4, 3, side(), side()})),
        targets(zeros({4}, DType::i64, test_device())) {}

  static int64_t side() { return test_device().is_cuda() ? 8 : 32; }
  void step() {
    cross_entropy(model(images), targets).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  int64_t measured_peak(const Plan& plan) {
    model.blocks.set_recompute(plan);
    memory().reset_peaks();
    step();
    return int64_t(memory().stats().peak_held);
  }
};

TEST(ResNetPlanner, PredictsTheAllocatorsPeakOfAStep) {
  for (ResNetBlock block : {ResNetBlock::basic, ResNetBlock::bottleneck}) {
    if (test_device().is_cuda() && block == ResNetBlock::bottleneck) continue;  // it takes its time
    Training training(block);
    training.step();
    auto clock = [seconds = 0.0]() mutable { return seconds += 1; };  // no plan depends on the machine
    const recompute::Chain chain =
        training.model.blocks.profile(training.images, {.repeats = 1, .clock = clock});
    std::vector<Plan> plans{recompute::plan_none(4), recompute::plan_every(4, 1), recompute::plan_every(4, 2),
                            recompute::plan_segments(4, 2)};
    for (const recompute::Planned& planned : recompute::frontier(chain)) plans.push_back(planned.plan);
    for (const Plan& plan : plans) {
      const auto predicted = double(simulate(plan, chain).peak_bytes),
                 measured = double(training.measured_peak(plan));
      EXPECT_NEAR(predicted / measured, 1, 0.02) << to_string(plan) << ": " << predicted << ", " << measured;
    }
  }
}

}  // namespace
}  // namespace reprise::nn
