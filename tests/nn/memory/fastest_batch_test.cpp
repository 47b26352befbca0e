// Steps whose time is known, as they sleep for it: which batch is fastest follows.
// not in asan: FastestBatches.ALargerOneIsWorthItsRecomputeWhereAStepCostsTheSame:FastestBatches.NoneIsFastestWhereEachRowCosts
// slow in asan
#include "reprise/nn/memory/fastest_batch.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops.h"
#include "reprise/core/no_compute.h"
#include "reprise/core/random.h"
#include "reprise/nn/block_stack.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/optim/adamw.h"
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

// Whichever call of the loss fails, those of the planner too, the search says how: no Error but that of memory leaves a batch out.
TEST(FastestBatches, AnErrorOfTheStepIsNoBatchThatDoesNotFit) {
  per_row = 0us;
  Sleeper sleeper;
  TrainingStepCase step = sleeper.step();
  int calls = 0, failing = 0;
  step.loss = [&](int64_t rows) {
    check(++calls != failing, "the loss fails");
    return square(sleeper.net(zeros({rows, width}))).mean();
  };
  const FastestBatchOptions options{
      .strategies = {"none", "full"}, .rounds = 1, .plans = true, .rows_per_update = 64};
  fastest_batches(step, options);
  const int all = calls;
  ASSERT_GT(all, 8);
  for (failing = 1; failing <= all - 4; ++failing) {
    calls = 0;
    expect_error([&] { fastest_batches(step, options); }, {"the loss fails"});
    sleeper.net.zero_grad();
  }
}

// Micro-batches of an update whose sums stay there, as `sums` counts them: one in `grad`, others beside it.
size_t peak_of_update(Sleeper& sleeper, const TimedBatch& batch, int64_t others) {
  sleeper.net.set_recompute(parse_strategy(batch.strategy));
  const TrainingStepCase step = sleeper.step();
  Allocator& memory = allocator(Device());
  memory.empty_cache();
  memory.reset_peaks();
  TensorList waiting;
  for (int64_t i = 0; i < others; ++i)
    for (const Tensor& x : sleeper.net.parameters()) waiting.push_back(zeros(x.shape()));
  for (int64_t micro = 0; micro < batch.micro_batches; ++micro) step.loss(batch.rows).backward();
  sleeper.net.zero_grad();
  sleeper.net.set_recompute(RecomputeStrategy());
  return memory.stats().peak_held;
}

constexpr double prediction =
    0.02;  // of a peak: losses and norms, and blocks of other batches that are rounded up

TEST(FastestBatches, DivideTheRowsOfAnUpdateAndCountItsSums) {
  Sleeper sleeper;
  const TrainingStepCase step = sleeper.step();
  const FastestBatchOptions options{
      .strategies = {"none", "full"},
      .rounds = 1,
      .rows_per_update = 120,
      .sums = [](int64_t micro_batches) -> int64_t { return micro_batches > 2 ? 3 : micro_batches - 1; },
      .most_bytes = size_t(64) << 20};
  const std::vector<TimedBatch> timed = fastest_batches(step, options);
  std::vector<int64_t> rows;
  for (const TimedBatch& batch : timed) {
    rows.push_back(batch.rows);
    EXPECT_EQ(batch.strategy, "none") << "all fits without recompute";
    EXPECT_EQ(batch.micro_batches, 120 / batch.rows);
    const auto real = double(peak_of_update(sleeper, batch, batch.micro_batches > 2 ? 2 : 0));
    EXPECT_NEAR(double(batch.peak), real, prediction * real) << batch.rows;
  }
  std::ranges::sort(rows);
  EXPECT_EQ(rows, (std::vector<int64_t>{24, 60, 120})) << "multiples of 4 that divide 120";
}

TEST(FastestBatches, LeastBatchIsWhatTakesLeast) {
  Sleeper sleeper;
  FastestBatchOptions options{.strategies = {"none", "full"}, .rows_per_update = 1200};
  const TimedBatch small = least_batch(sleeper.step(), options);
  EXPECT_EQ(small.strategy, "full");
  EXPECT_EQ(small.rows, 4);
  options.sums = [](int64_t micro_batches) {
    return micro_batches;
  };  // of a set for each, all at once is better
  const TimedBatch whole = least_batch(sleeper.step(), options);
  EXPECT_GT(whole.rows, 4);
  options.most_bytes = whole.peak - 1;
  options.rounds = 1;
  EXPECT_TRUE(fastest_batches(sleeper.step(), options).empty());
  options.most_bytes = whole.peak;
  const std::vector<TimedBatch> timed = fastest_batches(sleeper.step(), options);
  ASSERT_EQ(timed.size(), 1u);
  EXPECT_EQ(timed.front().rows, whole.rows);
  EXPECT_EQ(timed.front().strategy, whole.strategy);
}

// Between none and full there is a plan. The optimizer has its state, else the planner would leave room for Adam's.
TEST(FastestBatches, TryThePlannersPlanToo) {
  Sleeper sleeper;
  optim::AdamW optimizer(sleeper.net.parameters());
  optimizer.allocate_state();
  TrainingStepCase step = sleeper.step();
  step.optimizer = &optimizer;
  constexpr int64_t rows = 512;
  FastestBatchOptions options{
      .strategies = {"none", "full"}, .rounds = 1, .plans = true, .rows_per_update = rows};
  const auto peak = [&](const char* strategy) {
    return peak_of_update(sleeper, {.strategy = strategy, .rows = rows}, 0);
  };
  options.most_bytes = (peak("none") + peak("full")) / 2;
  const std::vector<TimedBatch> timed = fastest_batches(step, options);
  const auto planned = std::ranges::find_if(
      timed, [](const TimedBatch& one) { return one.rows == rows && one.strategy.starts_with("plan:"); });
  ASSERT_NE(planned, timed.end());
  EXPECT_LE(planned->peak, options.most_bytes);
  EXPECT_LE(peak_of_update(sleeper, *planned, 0), options.most_bytes);
  EXPECT_EQ(recompute::to_string(sleeper.net.strategy()), "none") << "as before";
}

// 1 MB, and 100 KB per row without recompute, 50 with it.
TEST(FastestBatches, FitByWhatIsSaidOfSteps) {
  per_row = 0us;
  Sleeper sleeper;
  TrainingStepCase step = sleeper.step();
  step.budget = size_t(1) << 30;
  const auto said = [](const RecomputeStrategy& strategy, int64_t) {
    const int64_t each = strategy.kind == RecomputeStrategy::Kind::none ? 100'000 : 50'000;
    const auto of = [&](int64_t rows) { return MeasuredStep{rows, 1'000'000, {{.bytes = rows * each}}}; };
    return StepMemory(of(4), of(8), allocator(Device()));
  };
  const std::vector<TimedBatch> timed = fastest_batches(
      step, {.strategies = {"none", "full"}, .rounds = 1, .most_bytes = 2'100'000, .measure = said});
  std::map<std::string, int64_t> most;
  for (const TimedBatch& one : timed) most[one.strategy] = std::max(most[one.strategy], one.rows);
  EXPECT_EQ(most, (std::map<std::string, int64_t>{{"none", 8}, {"full", 20}}));
}

TEST(FastestBatches, LeaveWeightsAndGeneratorsAsTheyWere) {
  Sleeper sleeper;
  TrainingStepCase step = sleeper.step();
  step.loss = [&](int64_t rows) { return square(sleeper.net(dropout(randn({rows, width}), 0.5))).mean(); };
  std::vector<std::vector<float>> weights;
  for (const Tensor& x : sleeper.net.parameters()) weights.push_back(x.to_vector<float>());
  const auto generator = default_generator().state();
  fastest_batches(step, {.strategies = {"none", "full"}, .rounds = 2, .plans = true, .rows_per_update = 64});
  EXPECT_EQ(default_generator().state(), generator);
  size_t i = 0;
  for (const Tensor& x : sleeper.net.parameters()) {
    EXPECT_EQ(x.to_vector<float>(), weights[i++]);
    EXPECT_FALSE(x.grad().defined());
  }
}

TEST(FastestBatches, NamesWhatIsWrong) {
  Sleeper sleeper;
  expect_error([&] { fastest_batches(sleeper.step(), {.rounds = 0}); },
               "fastest_batches: rounds must be at least 1, got 0");
  expect_error([&] { fastest_batches(sleeper.step(), {.rows_per_update = 10}); },
               "fastest_batches: 10 rows per update are no multiple of the smallest batch, 4");
  expect_error([&] { fastest_batches(sleeper.step(), {.strategies = {"auto:1GiB"}}); },
               "fastest_batches: 'auto' is a plan for one budget; see `plans`");
  const NoCompute no_compute;
  expect_error([&] { fastest_batches(sleeper.step()); },
               "fastest_batches: within a NoCompute nothing can be timed");
}

}  // namespace
}  // namespace reprise::nn
