// A Gpt planned for a memory budget: the predicted peak is the allocator's, the budget holds as a hard limit,
// and no bit of training depends on it.
// slow on the device cuda
// slow in asan
#include <gtest/gtest.h>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/tests/autograd/recompute/support.h"

namespace reprise::nn {
namespace {

using recompute::GradientMemory;
using recompute::Plan;
using testing::same_bits;
using testing::test_device;

constexpr auto automatic = RecomputeStrategy::Kind::automatic;

Allocator& memory() { return allocator(test_device()); }

/// A small model and what trains it. On the CPU the activations are most of its memory.
struct Training {
  GptOptions options;
  int64_t batch;
  Gpt model;
  optim::AdamW optimizer;
  Tensor tokens;

  explicit Training(const RecomputeStrategy& strategy = {}) : Training(strategy, test_device().is_cuda()) {}
  Training(const RecomputeStrategy& strategy, bool small)
      : options{.vocab_size = 65,
                .context = small ? 32 : 64,
                .layers = 5,
                .heads = small ? 1 : 2,
                .width = small ? 16 : 32,
                .dropout = 0.1,
                .recompute = strategy},
        batch(small ? 2 : 8),
        model((manual_seed(3), options), test_device()),
        optimizer(model.parameters(), {.lr = 1e-2}) {
    std::vector<int64_t> numbers(size_t(batch * options.context));
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = int64_t(i * i % 65);
    tokens = Tensor::from(numbers, {batch, options.context}).to(test_device());
  }

  Tensor loss() { return cross_entropy(model(tokens), tokens); }
  /// Losses of some steps, of `micro_batches` each.
  TensorList run(int steps, int micro_batches = 1) {
    TensorList losses;
    for (int step = 0; step < steps; ++step) {
      for (int micro = 0; micro < micro_batches; ++micro) {
        losses.push_back(loss());
        losses.back().backward();
        losses.back() = losses.back().detach().clone();
      }
      optimizer.step();
      optimizer.zero_grad();
    }
    return losses;
  }
  int64_t measured_peak(int micro_batches = 1) {
    memory().reset_peaks();
    run(1, micro_batches);
    return int64_t(memory().stats().peak_held);
  }
};

struct Limit {
  explicit Limit(size_t bytes) { memory().set_limit(bytes); }
  ~Limit() { memory().set_limit(0); }
};

TEST(GptPlanner, PredictsTheAllocatorsPeakOfAStep) {
  Training training;
  training.run(1);
  for (int micro_batches : {1, 2}) {
    auto gradients = micro_batches == 1 ? GradientMemory::fresh : GradientMemory::held;
    recompute::Chain chain = training.model.h.profile(training.tokens, {.gradients = gradients});
    int64_t n = chain.size();
    std::vector<Plan> plans{recompute::plan_none(n), recompute::plan_every(n, 1),
                            recompute::plan_segments(n, 2)};
    for (const recompute::Planned& planned : recompute::frontier(chain)) plans.push_back(planned.plan);
    for (const Plan& plan : plans) {
      training.model.h.set_recompute(plan);
      auto predicted = double(simulate(plan, chain).peak_bytes);
      auto measured = double(training.measured_peak(micro_batches));
      EXPECT_NEAR(predicted / measured, 1, 0.01)
          << to_string(plan) << ": " << predicted << ", " << measured << " at " << micro_batches;
    }
  }
}

// Where nothing has run yet there are no 16-bit values of the weights, and the plan counts them all the same.
TEST(GptPlanner, CountsShadowsBeforeTheFirstStepUnderAutocast) {
  for (auto gradients : {GradientMemory::fresh, GradientMemory::held}) {
    Training training;
    training.optimizer.allocate_state();
    const amp::Autocast scope(test_device(), DType::bf16);
    const recompute::Chain chain = training.model.h.profile(training.tokens, {.gradients = gradients});
    const Plan none = recompute::plan_none(chain.size());
    const auto predicted = double(simulate(none, chain).peak_bytes);
    const auto measured = double(training.measured_peak(gradients == GradientMemory::fresh ? 1 : 2));
    EXPECT_NEAR(predicted, measured, 1024) << "the least of those values, the head's, has twice that";
  }
}

// Those of both dtypes are stale: the first run frees two and makes one.
TEST(GptPlanner, TakesAFirstRunThatFreesMoreThanItKeeps) {
  Training training;
  for (DType dtype : {DType::f16, DType::bf16}) {
    const amp::Autocast scope(test_device(), dtype);
    training.loss().backward();
  }
  training.optimizer.step();
  training.optimizer.zero_grad();
  const amp::Autocast scope(test_device(), DType::bf16);
  const recompute::Chain chain = training.model.h.profile(training.tokens);
  EXPECT_GE(recompute::frontier(chain).back().cost.peak_bytes, training.measured_peak());
}

TensorList plain_losses(int steps, int micro_batches) { return Training().run(steps, micro_batches); }

// The frontier of a model that has all its state.
std::vector<recompute::Planned> frontier_of_a_model(GradientMemory gradients) {
  Training training;
  training.optimizer.allocate_state();
  return recompute::frontier(training.model.h.profile(training.tokens, {.gradients = gradients}));
}

TEST(GptPlanner, TrainsToTheSameBitsWithinAHardLimit) {
  TensorList want = plain_losses(3, 1);
  std::vector<recompute::Planned> all = frontier_of_a_model(GradientMemory::fresh);
  ASSERT_GT(all.size(), 2u);
  for (size_t i : {size_t(0), all.size() / 2}) {
    Training training;
    training.optimizer.allocate_state();
    auto budget = size_t(all[i].cost.peak_bytes);
    recompute::Planned chosen = training.model.h.plan(training.tokens, budget);
    EXPECT_LE(chosen.cost.peak_bytes, int64_t(budget));
    EXPECT_NE(chosen.plan, recompute::plan_none(training.options.layers));
    memory().empty_cache();
    Limit limit(budget);
    EXPECT_TRUE(same_bits(training.run(3), want));
  }
}

TEST(GptPlanner, PlansByItselfInTheFirstTrainingStep) {
  TensorList want = plain_losses(2, 2);
  std::vector<recompute::Planned> all = frontier_of_a_model(GradientMemory::held);
  size_t budget = size_t(all.front().cost.peak_bytes + all.back().cost.peak_bytes) / 2;
  Training training({.kind = automatic, .memory_budget = budget});
  Plan none = recompute::plan_none(training.options.layers);
  EXPECT_EQ(training.model.h.recompute_plan(), none);
  memory().empty_cache();
  Limit limit(budget);
  EXPECT_TRUE(same_bits(training.run(2, 2), want));
  EXPECT_NE(training.model.h.recompute_plan(), none);
  EXPECT_EQ(training.model.h.strategy().kind, automatic);
  EXPECT_EQ(training.model.h.strategy().memory_budget, budget);
}

TEST(GptPlanner, RefusesABudgetBelowTheMinimumAndSaysIt) {
  Training training({.kind = automatic, .memory_budget = 1000});
  testing::expect_error([&] { training.run(1); },
                        {"recompute: a budget of 0.00095 MiB is below the minimum", "MiB of"});
  EXPECT_THROW(training.model.h.set_recompute({.kind = automatic}), Error);
}

}  // namespace
}  // namespace reprise::nn
