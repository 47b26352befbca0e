// What a user's program is told where its step ran out of memory, against steps under that limit.
#include "reprise/nn/memory/memory_advice.h"

#include <sstream>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops.h"
#include "reprise/core/random.h"
#include "reprise/nn/block_stack.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/tests/nn/memory/research_block.h"
#include "reprise/tests/support/compare.h"

namespace reprise::nn {
namespace {

Allocator& memory() { return allocator(Device()); }

struct Limit {
  explicit Limit(size_t bytes) {
    memory().empty_cache();
    memory().set_limit(bytes);
  }
  ~Limit() { memory().set_limit(0); }
};

constexpr int64_t width = 32;

struct Research {
  Research() {
    for (int i = 0; i < 6; ++i) net.add<testing::ResearchBlock<width>>();
    optimizer.emplace(net.parameters());
    optimizer->allocate_state();
  }
  Tensor loss(int64_t rows) { return square(net(randn({rows, width}))).mean(); }
  TrainingStepCase step(int64_t rows) {
    return {
        .model = net, .loss = [this](int64_t n) { return loss(n); }, .optimizer = &*optimizer, .rows = rows};
  }
  void train(const std::string& strategy, int64_t rows) {
    net.set_recompute(parse_strategy(strategy));
    loss(rows).backward();
    optimizer->step();
    net.zero_grad();
  }
  size_t peak(const std::string& strategy, int64_t rows) {
    memory().reset_peaks();
    train(strategy, rows);
    return memory().stats().peak_held;
  }

  BlockStack net;
  std::optional<optim::AdamW> optimizer;
};

std::string printed(const MemoryAdvice& advice) {
  std::ostringstream text;
  text << advice;
  return text.str();
}

// The steps that it names, tried under the limit.
TEST(MemoryAdvice, IsTrueInACatchBlock) {
  Research research;
  constexpr int64_t rows = 512;
  const Limit limit((research.peak("none", rows) + research.peak("full", rows)) / 2);
  MemoryAdvice advice;
  bool is_refused = false;
  try {
    research.train("none", rows);
  } catch (const OutOfMemory&) {
    is_refused = true;
    advice = memory_advice(research.step(rows));
  }
  ASSERT_TRUE(is_refused);
  EXPECT_EQ(to_string(research.net.strategy()), "none") << "as before";
  for (const Tensor& parameter : research.net.parameters()) EXPECT_FALSE(parameter.grad().defined());
  EXPECT_EQ(advice.budget, memory().limit());
  const FittingSteps& fitting = advice.fitting;
  ASSERT_FALSE(fitting.strategies.empty());
  EXPECT_EQ(fitting.strategies.back(), "full");
  for (const std::string& strategy : fitting.strategies)
    EXPECT_NO_THROW(research.train(strategy, rows)) << strategy;
  EXPECT_GT(fitting.own_rows, rows / 4);
  EXPECT_LT(fitting.own_rows, rows);
  EXPECT_NO_THROW(research.train("none", fitting.own_rows));
  EXPECT_EQ(fitting.best, "full");
  EXPECT_NO_THROW(research.train("full", fitting.most_rows));
  EXPECT_THROW(research.train("full", 2 * fitting.most_rows), OutOfMemory);
  const std::string text = printed(advice);
  EXPECT_TRUE(text.starts_with("a step of 512 rows is predicted to take ")) << text;
  EXPECT_TRUE(text.ends_with("full would fit; so would a batch of " + std::to_string(fitting.own_rows)))
      << text;
}

// What waits beside the gradients of the last micro-batch is not there for its rows.
TEST(MemoryAdvice, CountsTheSumsOfGradientsThatWait) {
  Research research;
  constexpr int64_t rows = 512, sums = 3;
  size_t set = 0;
  for (const Tensor& x : research.net.parameters()) set += memory().block_size(size_t(x.numel()) * 4);
  const Limit limit(research.peak("none", rows) + sums * set / 2);
  TrainingStepCase step = research.step(rows);
  const int64_t first = memory_advice(step).fitting.own_rows;
  step.sums = sums;
  const int64_t last = memory_advice(step).fitting.own_rows;
  const auto train_with_sums = [&](int64_t some) {
    TensorList waiting;
    for (int64_t i = 1; i < sums; ++i)
      for (const Tensor& x : research.net.parameters()) waiting.push_back(zeros(x.shape()));
    research.net.set_recompute(RecomputeStrategy());
    for (int micro = 0; micro < 2; ++micro) research.loss(some).backward();
    research.net.zero_grad();
  };
  EXPECT_LT(last, first);
  EXPECT_GT(last, 0);
  EXPECT_NO_THROW(train_with_sums(last));
  EXPECT_THROW(train_with_sums(rows), OutOfMemory);
  research.net.zero_grad();
}

TEST(MemoryAdvice, OfAModelWithoutBlocksIsABatchAlone) {
  Linear layer(width, width);
  auto loss = [&](int64_t rows) { return square(layer(zeros({rows, width}))).mean(); };
  memory().reset_peaks();
  loss(4096).backward();
  layer.zero_grad();
  const Limit limit(memory().stats().peak_held / 4 * 3);
  const MemoryAdvice advice = memory_advice({.model = layer, .loss = loss, .rows = 4096, .smallest = 2});
  EXPECT_EQ(advice.measured.size(), 1u);
  EXPECT_TRUE(advice.fitting.strategies.empty());
  EXPECT_EQ(advice.fitting.own_rows % 2, 0);
  EXPECT_TRUE(
      printed(advice).ends_with("; a batch of " + std::to_string(advice.fitting.own_rows) + " would fit"))
      << printed(advice);
  EXPECT_NO_THROW(loss(advice.fitting.own_rows).backward());
  layer.zero_grad();
}

TEST(MemoryAdvice, SaysWhereNothingFits) {
  Research research;
  {
    const Limit limit(memory().stats().held + 1000);
    const std::string text = printed(memory_advice(research.step(4)));
    EXPECT_NE(text.find("too much (none), too much (selective), too much (full)"), std::string::npos) << text;
    EXPECT_TRUE(text.ends_with("; not even a batch of 1 fits, with any recompute")) << text;
  }
  optim::AdamW without_state(research.net.parameters());
  TrainingStepCase step = research.step(4);
  step.optimizer = &without_state;
  const Limit limit(memory().stats().held + 1000);
  EXPECT_EQ(printed(memory_advice(step)), "the model and the state of its optimizer alone do not fit");
}

}  // namespace
}  // namespace reprise::nn
