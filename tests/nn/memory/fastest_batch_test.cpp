// Steps whose time is known, as they sleep for it: which batch is fastest follows.
#include "reprise/nn/memory/fastest_batch.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "reprise/autograd/ops.h"
#include "reprise/core/no_compute.h"
#include "reprise/nn/block_stack.h"
#include "reprise/nn/linear.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/errors.h"

namespace reprise::nn {
namespace {

using testing::expect_error;
using namespace std::chrono_literals;

constexpr int64_t width = 64;

std::chrono::microseconds per_row{0};  // that a block sleeps, when it is recomputed too

struct Block : Layer {
  Linear in{width, 4 * width}, out{4 * width, width};
  Block() {
    register_module("in", in);
    register_module("out", out);
  }
  Tensor forward(const Tensor& x) override {
    std::this_thread::sleep_for(per_row * x.size(0));
    return x + out(gelu(in(x)));
  }
};

struct Sleeper {
  BlockStack net;
  std::chrono::microseconds per_step{0};
  int updates = 0;
  Sleeper() {
    for (int i = 0; i < 4; ++i) net.add<Block>();
  }
  TrainingStepCase step() {
    return {.model = net,
            .loss =
                [this](int64_t rows) {
                  std::this_thread::sleep_for(per_step);
                  return square(net(zeros({rows, width}))).mean();
                },
            .rows = 4,
            .smallest = 4,
            .budget = allocator(Device()).stats().held + (2 << 20)};
  }
};

int64_t most_rows(Sleeper& sleeper, const char* strategy) {
  return max_batch(sleeper.step(), parse_strategy(strategy));
}

TEST(FastestBatches, ALargerOneIsWorthItsRecomputeWhereAStepCostsTheSame) {
  per_row = 0us;
  Sleeper sleeper;
  sleeper.per_step = 60ms;
  const std::vector<TimedBatch> timed =
      fastest_batches(sleeper.step(), {.strategies = {"none", "full"}, .rounds = 1});
  const int64_t none = most_rows(sleeper, "none"), full = most_rows(sleeper, "full");
  ASSERT_GT(full, 2 * none) << "what this test is for";
  ASSERT_FALSE(timed.empty());
  EXPECT_EQ(timed.front().strategy, "full");
  EXPECT_EQ(timed.front().rows, full);
  EXPECT_GE(timed.front().seconds, 0.06);
  for (const TimedBatch& batch : timed) {
    EXPECT_EQ(batch.rows % 4, 0) << batch.strategy;
    EXPECT_LE(batch.rows, batch.strategy == "none" ? none : full);
    EXPECT_TRUE(batch.strategy == "none" || batch.rows > none) << batch.rows << " fit without recompute";
  }
  EXPECT_TRUE(std::ranges::is_sorted(timed, std::ranges::greater(), &TimedBatch::rows_per_second));
}

TEST(FastestBatches, NoneIsFastestWhereEachRowCosts) {
  per_row = 50us;
  Sleeper sleeper;
  const std::vector<TimedBatch> timed =
      fastest_batches(sleeper.step(), {.strategies = {"none", "full"}, .rounds = 1});
  per_row = 0us;
  ASSERT_FALSE(timed.empty());
  EXPECT_EQ(timed.front().strategy, "none");
}

TEST(FastestBatches, TrainsWithAnUpdateAndElseLeavesTheModel) {
  Sleeper sleeper;
  sleeper.net.set_recompute(parse_strategy("every:2"));
  TrainingStepCase step = sleeper.step();
  const size_t without = fastest_batches(step, {.strategies = {"none"}, .rounds = 2}).size();
  EXPECT_EQ(recompute::to_string(sleeper.net.strategy()), "every:2");
  EXPECT_EQ(without, 3u) << "the largest, half of it, a quarter";
  step.update = [&] { ++sleeper.updates, sleeper.net.zero_grad(); };
  fastest_batches(step, {.strategies = {"none"}, .rounds = 2});
  EXPECT_EQ(sleeper.updates, 3 * (1 + 2));
  step.budget = 1000;
  EXPECT_TRUE(fastest_batches(step, {.strategies = {"none"}, .rounds = 1}).empty());
}

TEST(FastestBatches, NamesWhatIsWrong) {
  Sleeper sleeper;
  expect_error([&] { fastest_batches(sleeper.step(), {.rounds = 0}); },
               "fastest_batches: rounds must be at least 1, got 0");
  const NoCompute no_compute;
  expect_error([&] { fastest_batches(sleeper.step()); },
               "fastest_batches: within a NoCompute nothing can be timed");
}

}  // namespace
}  // namespace reprise::nn
