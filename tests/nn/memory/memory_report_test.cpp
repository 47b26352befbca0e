// The report of a user's own model, against training steps of it and the allocator.
// slow in asan
#include "reprise/nn/memory/memory_report.h"

#include <optional>
#include <sstream>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops.h"
#include "reprise/core/random.h"
#include "reprise/nn/block_stack.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/lamb.h"
#include "reprise/tests/nn/memory/research_block.h"
#include "reprise/tests/support/compare.h"

namespace reprise::nn {
namespace {

using testing::expect_error;

constexpr int64_t width = 32;

using Block = testing::ResearchBlock<width>;

// What a user writes: a stack of blocks of his own, and a loss.
struct Research {
  explicit Research(int blocks) {
    for (int i = 0; i < blocks; ++i) net.add<Block>();
  }
  Tensor loss(int64_t rows) { return square(net(randn({rows, width}))).mean(); }
  TrainingStepCase step(int64_t rows, size_t budget = 0) {
    return {.model = net,
            .loss = [this](int64_t n) { return loss(n); },
            .optimizer = &optimizer(),
            .rows = rows,
            .budget = budget};
  }
  optim::AdamW& optimizer() {
    if (!adamw) adamw.emplace(net.parameters());
    return *adamw;
  }

  BlockStack net;
  std::optional<optim::AdamW> adamw;
};

Allocator& memory() { return allocator(Device()); }

size_t peak_of_step(Research& research, int64_t rows) {
  memory().reset_peaks();
  research.loss(rows).backward();
  research.optimizer().step(optim::clip_scale(optim::grad_norm(research.net.parameters()), 1.0));
  research.net.zero_grad();
  return memory().stats().peak_held;
}

TEST(MemoryReport, SaysWhatStepsOfAUsersModelTake) {
  constexpr int64_t rows = 192;
  Research research(6);
  const MemoryReport report = memory_report(research.step(rows));
  ASSERT_EQ(report.strategies.size(), 5u);
  for (const StrategyMemory& s : report.strategies) {
    SCOPED_TRACE(s.strategy);
    research.net.set_recompute(parse_strategy(s.strategy));
    const double peak = double(peak_of_step(research, rows));
    EXPECT_NEAR(double(s.peak), peak, 0.02 * peak);
    EXPECT_TRUE(s.fits);
    EXPECT_GT(s.seconds, 0);
    EXPECT_GT(s.times_slower, 0);
  }
  const StrategyMemory &none = report.strategies[0], &full = report.strategies[4];
  EXPECT_EQ(none.times_slower, 1);
  EXPECT_LT(2 * full.peak_activations, none.peak_activations);
  EXPECT_GT(full.most_rows, none.most_rows);
  // 6 blocks of two matrices and biases, f32; Adam's two moments of each.
  const size_t weights = 6 * 4 * (2 * 4 * width * width + 4 * width + width);
  EXPECT_EQ(report.weights, weights);
  EXPECT_EQ(report.gradients, weights);
  EXPECT_EQ(report.optimizer, 2 * weights);
}

TEST(MemoryReport, NamesABatchThatTrainsAndTwiceItDoesNot) {
  Research research(4);
  const size_t budget = memory().stats().held + (8 << 20);
  const MemoryReport report = memory_report(research.step(1, budget), {.rounds = 0});
  memory().empty_cache();
  memory().set_limit(budget);
  for (const StrategyMemory& s : report.strategies) {
    SCOPED_TRACE(s.strategy);
    research.net.set_recompute(parse_strategy(s.strategy));
    EXPECT_NO_THROW(peak_of_step(research, s.most_rows));
    EXPECT_THROW(peak_of_step(research, 2 * s.most_rows), OutOfMemory);
    research.net.zero_grad();
    EXPECT_EQ(s.seconds, 0);
  }
  memory().set_limit(0);
  EXPECT_EQ(max_batch(research.step(1, budget), parse_strategy("full")), report.strategies[4].most_rows);
}

TEST(MemoryReport, SaysWhichStrategyFitsWhereTheFirstDoesNot) {
  Research research(8);
  const MemoryReport all = memory_report(research.step(512), {.rounds = 0});
  const size_t between = (all.strategies[0].peak + all.strategies[4].peak) / 2;
  const MemoryReport report =
      memory_report(research.step(512, between), {.strategies = {"none", "full"}, .rounds = 1});
  EXPECT_FALSE(report.strategies[0].fits);
  EXPECT_TRUE(report.strategies[1].fits);
  EXPECT_EQ(report.best(), 1u);
  EXPECT_EQ(report.strategies[1].times_slower, 1) << "the first that fits";
  EXPECT_LT(report.strategies[0].most_rows, 512);
  const MemoryReport nothing = memory_report(research.step(512, 1000), {.rounds = 1});
  EXPECT_FALSE(nothing.best());
  EXPECT_EQ(nothing.strategies[4].most_rows, 0);
}

TEST(MemoryReport, LeavesTheModelAsItWas) {
  Research research(4);
  research.net.set_recompute(parse_strategy("every:2"));
  research.optimizer().allocate_state();
  std::vector<Tensor> before;
  for (const Tensor& x : research.net.parameters()) before.push_back(x.clone());
  const auto draws = default_generator().state();
  memory_report(research.step(8), {.rounds = 1});
  EXPECT_EQ(default_generator().state(), draws);
  EXPECT_EQ(recompute::to_string(research.net.strategy()), "every:2");
  const TensorList after = research.net.parameters();
  for (size_t i = 0; i < after.size(); ++i) {
    EXPECT_TRUE(testing::same_bits(after[i], before[i]));
    EXPECT_FALSE(after[i].grad().defined());
  }
  for (const auto& [name, x] : research.optimizer().state_dict()) EXPECT_EQ(sum(square(x)).item(), 0) << name;
}

// A batch so small that the update takes more than backward did.
TEST(MemoryReport, CountsTheOptimizersStep) {
  Sequential net;
  net.add<Linear>(256, 256);
  optim::Lamb lamb(net.parameters());
  auto loss = [&](int64_t rows) { return square(net(randn({rows, 256}))).mean(); };
  const MemoryReport report = memory_report({.model = net, .loss = loss, .optimizer = &lamb}, {.rounds = 0});
  memory().reset_peaks();
  loss(1).backward();
  const size_t backward = memory().stats().peak_held;
  lamb.step();
  const double peak = double(memory().stats().peak_held);
  EXPECT_NEAR(double(report.strategies[0].peak), peak, 0.02 * peak);
  EXPECT_GT(peak, 1.1 * double(backward)) << "what this test is for";
}

TEST(MemoryReport, TakesTheBlocksOfAModelThatHasThem) {
  Gpt gpt({.vocab_size = 65, .context = 16, .layers = 3, .heads = 2, .width = 32, .dropout = 0});
  TrainingStepCase step{.model = gpt, .loss = [&](int64_t rows) {
                          const Tensor tokens = zeros({rows, 16}, DType::i64);
                          return cross_entropy(gpt(tokens), tokens);
                        }};
  step.rows = 8;
  EXPECT_EQ(memory_report(step, {.rounds = 0}).strategies.size(), 1u) << "nothing to recompute is known";
  step.blocks = &gpt.h;
  const MemoryReport report =
      memory_report(step, {.strategies = {"none", "segments:9", "full"}, .rounds = 0});
  ASSERT_EQ(report.strategies.size(), 2u) << "there are three blocks";
  for (const StrategyMemory& s : report.strategies) {
    gpt.h.set_recompute(parse_strategy(s.strategy));
    memory().reset_peaks();
    step.loss(8).backward();
    const double peak = double(memory().stats().peak_held);
    EXPECT_NEAR(double(s.peak), peak, 0.02 * peak) << s.strategy;
    gpt.zero_grad();
  }
}

TEST(MemoryReport, IsPrintedAsATable) {
  const MemoryReport report{.device = {},
                            .rows = 32,
                            .budget = size_t(2) << 30,
                            .weights = 1 << 20,
                            .gradients = 1 << 20,
                            .optimizer = 2 << 20,
                            .strategies = {{.strategy = "none", .peak = size_t(2400) << 20, .most_rows = 24},
                                           {.strategy = "full",
                                            .peak = 100 << 20,
                                            .most_rows = 150,
                                            .fits = true,
                                            .peak_activations = 50 << 20,
                                            .seconds = 0.0125,
                                            .times_slower = 1.25}}};
  std::ostringstream out;
  out << report;
  EXPECT_EQ(out.str(),
            "A step of 32 rows on cpu, within 2.00 GiB for tensors\n"
            "weights 1.0 MiB, gradients 1.0 MiB, optimizer 2.0 MiB, however much is recomputed\n"
            "recompute                         peak   activations     step ms    slower   largest batch\n"
            "none                          2.34 GiB  does not fit           -         -              24\n"
            "full                         100.0 MiB      50.0 MiB        12.5      1.25             150\n"
            "Fastest that fits: full. The largest batch: 150, with full.\n");
}

TEST(MemoryReport, SaysWhatItCannotMeasure) {
  Research research(2);
  auto step = research.step(3);
  step.smallest = 2;
  expect_error([&] { memory_report(step); },
               {"memory_report: rows 3 must be a multiple of the smallest batch, 2"});
  expect_error([&] { memory_report(research.step(1), {.strategies = {"auto:1GiB"}}); },
               {"memory_report: 'auto'"});
  expect_error([&] { memory_report(research.step(1), {.strategies = {"fully"}}); }, {"fully"});
  research.net.set_recompute(recompute::plan_of(parse_strategy("full"), 2));
  expect_error([&] { max_batch(research.step(1)); }, {"max_batch: the model runs by a plan of its own"});
  research.net.set_recompute(parse_strategy("none"));
  memory().empty_cache();
  memory().set_limit(memory().stats().reserved + 1);
  EXPECT_THROW(memory_report(research.step(1)), OutOfMemory);
  memory().set_limit(0);
}

}  // namespace
}  // namespace reprise::nn
