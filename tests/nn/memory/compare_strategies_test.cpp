// What strategies take and cost in steps of a user's own model, by the library's calls: against the allocator and against each other.
// slow in asan
#include "reprise/nn/memory/compare_strategies.h"

#include <map>

#include "reprise/autograd/ops.h"
#include "reprise/autograd/recompute/checkpoint.h"
#include "reprise/core/random.h"
#include "reprise/nn/block_stack.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/memory/batch_search.h"
#include "reprise/nn/memory/step_profile.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/tests/nn/memory/research_block.h"
#include "reprise/tests/support/compare.h"

namespace reprise::nn {
namespace {

using testing::expect_error;
using testing::same_bits;

constexpr int64_t width = 16, rows = 64;

Allocator& memory() { return allocator(Device()); }

using Block = testing::ResearchBlock<width>;

// A user's: blocks of his own, and a loss.
struct Research {
  explicit Research(int blocks) {
    manual_seed(5);
    for (int i = 0; i < blocks; ++i) net.add<Block>();
  }
  Tensor loss(int64_t n) { return square(net(randn({n, width}))).mean(); }
  TrainingStepCase step() {
    return {.model = net, .loss = [this](int64_t n) { return loss(n); }, .rows = rows};
  }
  TensorList weights() const {
    TensorList all;
    for (const Tensor& x : net.parameters()) all.push_back(x.detach().clone());
    return all;
  }

  BlockStack net;
};

TEST(CompareStrategies, MeasuresStepsOfAUsersModelAndLeavesItAsItWas) {
  Research research(6);
  const TensorList before = research.weights();
  research.net.set_recompute(parse_strategy("every:3"));
  const auto state = default_generator().state();
  const std::vector<StrategyCost> costs = compare_strategies(
      research.step(),
      {.strategies = {"none", "full", "every:2", "keep:3", "auto:50%", "segments:9"}, .rounds = 3});
  EXPECT_EQ(default_generator().state(), state);
  EXPECT_EQ(to_string(research.net.strategy()), "every:3");
  EXPECT_TRUE(same_bits(research.weights(), before));
  for (const Tensor& x : research.net.parameters()) EXPECT_FALSE(x.grad().defined());

  ASSERT_EQ(costs.size(), 5u) << "there are no nine segments of six blocks";
  std::map<std::string, StrategyCost> by_name;
  for (const StrategyCost& cost : costs) {
    by_name[cost.strategy] = cost;
    EXPECT_GT(cost.seconds.least, 0) << cost.strategy;
    EXPECT_LE(cost.seconds.least, cost.seconds.median) << cost.strategy;
    EXPECT_LE(cost.seconds.median, cost.seconds.most) << cost.strategy;
    EXPECT_LE(cost.held, cost.peak_activations) << cost.strategy;
    EXPECT_LE(cost.peak_activations, cost.peak) << cost.strategy;
  }
  EXPECT_EQ(by_name["none"].times_slower, 1);
  EXPECT_LT(by_name["full"].held, by_name["keep:3"].held);
  EXPECT_LT(by_name["keep:3"].held, by_name["every:2"].held);
  EXPECT_LT(by_name["every:2"].held, by_name["none"].held);
  EXPECT_LT(by_name["auto:50%"].peak, by_name["none"].peak);
  EXPECT_GT(by_name["auto:50%"].peak, by_name["full"].peak);

  // Peaks are those of steps that a user's program makes.
  for (const char* strategy : {"none", "full", "keep:3"}) {
    research.net.set_recompute(parse_strategy(strategy));
    memory().reset_peaks();
    research.loss(rows).backward();
    EXPECT_EQ(by_name[strategy].peak, memory().stats().peak_held) << strategy;
    research.net.zero_grad();
  }
}

TEST(CompareStrategies, TrainsWhereTheStepHasAnUpdate) {
  Research research(2);
  optim::AdamW optimizer(research.net.parameters());
  const TensorList before = research.weights();
  TrainingStepCase step = research.step();
  int updates = 0;
  step.update = [&] {
    ++updates;
    optimizer.step();
    optimizer.zero_grad();
  };
  compare_strategies(step, {.strategies = {"none", "full"}, .rounds = 2});
  EXPECT_EQ(updates, 2 * (1 + 1 + 2)) << "one that makes what is made once, one recorded, two timed";
  EXPECT_FALSE(same_bits(research.weights()[0], before[0]));
}

TEST(CompareStrategies, PlaysEachStrategyByItselfAndInTurns) {
  Research research(1);
  std::string set, played;
  TrainingStepCase step = research.step();
  step.loss = [&](int64_t n) {
    played += set;
    return research.loss(n);
  };
  std::vector<NamedStrategy> strategies;
  for (const char* name : {"a", "b", "c"}) strategies.push_back({name, [&set, name] { set = name; }});
  compare_strategies(step, strategies, 3);
  EXPECT_EQ(played,
            "aabbcc"
            "abc"
            "bca"
            "cab");
}

TEST(CompareStrategies, RefusesWhatItCannotCompare) {
  Research research(2);
  expect_error([&] { compare_strategies(research.step(), {.strategies = {"most"}}); },
               {"unknown strategy 'most'"});
  expect_error([&] { compare_strategies(research.step(), {.strategies = {"auto:1kB"}}); },
               {"below the minimum"});
  expect_error([] { spread_of({}); }, {"spread_of", "no values"});
}

TEST(SpreadOf, IsTheLeastTheMiddleAndTheMost) {
  const Spread odd = spread_of({3, 1, 2}), even = spread_of({4, 1, 2, 8});
  EXPECT_EQ(odd.least, 1);
  EXPECT_EQ(odd.median, 2);
  EXPECT_EQ(odd.most, 3);
  EXPECT_EQ(even.median, 3);
}

TEST(Profile, TellsWhatEachRegionOfAUsersModelSavesAndMakesAnew) {
  Research research(4);
  const TensorList before = research.weights();
  const StepProfile plain = profile(research.step()), with = profile(research.step(), "keep:2");
  EXPECT_TRUE(same_bits(research.weights(), before));
  EXPECT_TRUE(plain.regions.empty());
  ASSERT_EQ(with.regions.size(), 2u);
  for (const auto& region : with.regions) {
    EXPECT_EQ(region.replays, 1) << region.name;
    EXPECT_GT(region.bytes_recomputed, 0u) << region.name;
  }
  EXPECT_EQ(with.regions[0].name, "blocks.0");
  EXPECT_EQ(with.regions[1].name, "blocks.2");
  std::map<StepPhase, std::map<std::string, int>> linears;
  for (const StepSlice& slice : with.slices)
    if (slice.name == "linear") ++linears[slice.phase][slice.layer];
  EXPECT_EQ(linears[StepPhase::forward]["blocks.1"], 2);
  EXPECT_EQ(linears[StepPhase::backward]["blocks.1"], 2);
  EXPECT_EQ(linears[StepPhase::replay].count("blocks.1"), 0u) << "it is kept";
  EXPECT_GT(linears[StepPhase::replay]["blocks.0"], 0);
  // The timeline's peak is what tensors asked for; blocks hold a little more.
  for (const StepProfile* step : {&plain, &with}) {
    EXPECT_LE(step->timeline.peak(), step->peak);
    EXPECT_GT(step->timeline.peak(), step->peak / 2);
    EXPECT_GT(step->seconds, 0);
    EXPECT_EQ(step->timeline.end().activations(), step->timeline.points().front().activations());
  }
  EXPECT_LT(with.timeline.peak_activations(), plain.timeline.peak_activations());
  size_t replayed = 0, activations = 0;
  for (const MemoryPoint& point : plain.timeline.points()) {
    replayed = std::max(replayed, point.by_category[size_t(MemoryCategory::recompute)]);
    activations = std::max(activations, point.by_category[size_t(MemoryCategory::activations)]);
  }
  EXPECT_EQ(replayed, 0u);
  EXPECT_GT(activations, 0u);
}

// A model that is no stack, and calls checkpoint itself.
struct Hand : Module {
  Linear a{width, width}, b{width, width};
  Hand() {
    register_module("a", a);
    register_module("b", b);
  }
  Tensor operator()(const Tensor& x) {
    return checkpoint([this](const Tensor& in) { return gelu(a(in)); }, gelu(b(x)));
  }
};

TEST(Profile, SeesTheReplaysOfCheckpointsThatTheModelCalls) {
  Hand hand;
  const auto loss = [&](int64_t n) { return square(hand(randn({n, width}))).mean(); };
  const StepProfile found = profile({.model = hand, .loss = loss, .rows = rows});
  int linears = 0, regions = 0;
  for (const StepSlice& slice : found.slices) {
    if (slice.phase != StepPhase::replay) continue;
    linears += slice.name == "linear";
    regions += slice.name == "region";
  }
  EXPECT_EQ(regions, 1);
  EXPECT_EQ(linears, 1);
  expect_error([&] { profile({.model = hand, .loss = loss, .rows = rows}, "full"); },
               {"profile: the model has no blocks for 'full'"});
}

// A graph may outlive the profile in which it was made.
TEST(Profile, IsNotToldOfReplaysAfterItsEnd) {
  Hand hand;
  Tensor late;
  const auto loss = [&](int64_t n) {
    late = square(hand(randn({n, width}))).mean();
    return square(hand(randn({n, width}))).mean();
  };
  profile({.model = hand, .loss = loss, .rows = rows});
  EXPECT_NO_THROW(late.backward());
}

TEST(TryMaxBatch, DropsTheGradientsOfWhatDidNotFit) {
  Research research(1);
  memory().set_limit(memory().stats().reserved + (64 << 20));
  const auto step = [&](int64_t n) {
    for (const Tensor& x : research.net.parameters()) EXPECT_FALSE(x.grad().defined()) << n;
    research.loss(1).backward();
    if (n > 5) throw OutOfMemory("no room for more than 5");
    research.net.zero_grad();
  };
  const FoundBatch found = try_max_batch(research.net, step);
  EXPECT_EQ(found.rows, 5);
  EXPECT_EQ(found.refusal, "no room for more than 5");
  memory().set_limit(0);
}

TEST(TryMaxBatch, FindsTheBatchAboveWhichTheLimitRefuses) {
  Research research(4);
  const auto train = [&](int64_t n) {
    research.loss(n).backward();
    research.net.zero_grad();
  };
  train(1);
  memory().empty_cache();
  memory().set_limit(memory().stats().held + (3 << 20));
  std::map<std::string, int64_t> found;
  for (const char* strategy : {"none", "full"}) {
    research.net.set_recompute(parse_strategy(strategy));
    const FoundBatch batch = try_max_batch(research.net, train);
    found[strategy] = batch.rows;
    EXPECT_NO_THROW(train(batch.rows)) << strategy;
    EXPECT_LE(batch.peak, memory().limit()) << strategy;
    EXPECT_EQ(batch.refused, batch.rows + 1) << strategy;
    EXPECT_NE(batch.refusal.find("out of memory on"), std::string::npos) << batch.refusal;
    memory().empty_cache();
    EXPECT_THROW(train(batch.rows + 1), OutOfMemory) << strategy;
    research.net.zero_grad();
    EXPECT_EQ(try_max_batch(research.net, train, {.largest = 10}).rows, 10);
  }
  EXPECT_GT(found["full"], found["none"]);
  memory().set_limit(memory().stats().held + 1000);
  EXPECT_EQ(try_max_batch(research.net, train).rows, 0);
  memory().set_limit(0);
  expect_error([&] { try_max_batch(research.net, train); }, {"try_max_batch", "set_limit"});
  expect_error([&] { try_max_batch(research.net, train, {.least = 4, .largest = 2}); }, {"from 4 to 2"});
}

}  // namespace
}  // namespace reprise::nn
