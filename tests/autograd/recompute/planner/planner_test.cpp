// The planner: the cost model by hand, budgets, refusals, and what must hold at every budget.
#include "reprise/autograd/recompute/planner/planner.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "reprise/tests/autograd/recompute/planner/random_chains.h"
#include "reprise/tests/support/errors.h"

namespace reprise::recompute {
namespace {

using testing::expect_error;
using testing::random_chain;

TEST(Planner, IsNeverAboveTheBudgetAndFasterWithMore) {
  std::mt19937 random(11);
  for (int64_t n : {1, 2, 5, 13, 30}) {
    Chain chain = random_chain(n, random);
    int64_t least = minimum_bytes(chain), most = simulate(plan_none(n), chain).peak_bytes;
    double last = std::numeric_limits<double>::infinity();
    for (int step = 0; step <= 12; ++step) {
      int64_t budget = least + (most - least) * step / 12;
      Planned planned = plan_rotor(chain, budget);
      EXPECT_LE(simulate(planned.plan, chain).peak_bytes, budget);
      EXPECT_LE(planned.cost.seconds, last) << "at " << budget;
      last = planned.cost.seconds;
    }
    EXPECT_EQ(last, simulate(plan_none(n), chain).seconds);
  }
}

TEST(Planner, IsNeverSlowerThanTheBestUniformPlan) {
  std::mt19937 random(13);
  int compared = 0;
  for (int64_t n : {1, 3, 6, 12, 24}) {
    Chain chain = random_chain(n, random);
    int64_t least = minimum_bytes(chain), most = simulate(plan_none(n), chain).peak_bytes;
    for (int step = 0; step <= 20; ++step) {
      int64_t budget = least + (most - least) * step / 20;
      Planned uniform;
      try {
        uniform = plan_uniform(chain, budget);
      } catch (const Error&) { continue; }
      ++compared;
      EXPECT_LE(uniform.cost.peak_bytes, budget);
      EXPECT_LE(plan_rotor(chain, budget).cost.seconds, uniform.cost.seconds);
    }
  }
  EXPECT_GT(compared, 50);
}

TEST(Planner, FindsTheFastestUniformPlanOfEachBudget) {
  std::mt19937 random(23);
  for (int64_t n : {1, 4, 7, 12}) {
    Chain chain = random_chain(n, random);
    std::vector<PlanCost> costs{simulate(plan_none(n), chain)};
    for (int64_t k = 1; k <= n; ++k)
      for (const Plan& plan : {plan_segments(n, k), plan_segments(n, k, LastSegment::checkpointed),
                               plan_every(n, k), plan_keep(n, k)})
        costs.push_back(simulate(plan, chain));
    for (const PlanCost& budget : costs) {
      double fastest = std::numeric_limits<double>::infinity();
      for (const PlanCost& cost : costs)
        if (cost.peak_bytes <= budget.peak_bytes) fastest = std::min(fastest, cost.seconds);
      EXPECT_EQ(plan_uniform(chain, budget.peak_bytes).cost.seconds, fastest) << n << " stages";
    }
  }
}

// A region whose replay keeps everything has no segments inside.
void expect_no_single_plain_segment_inside(const Plan& plan) {
  for (const Segment& s : plan) {
    EXPECT_FALSE(s.inside.size() == 1 && !s.inside[0].checkpointed) << to_string(plan);
    expect_no_single_plain_segment_inside(s.inside);
  }
}

TEST(Planner, WritesRegionsThatAreReplayedPlainlyWithoutSegments) {
  std::mt19937 random(29);
  for (const Planned& planned : frontier(random_chain(8, random)))
    expect_no_single_plain_segment_inside(planned.plan);
}

TEST(Planner, ReachesTheMinimumAndRefusesBelowItWithANumberThatIsEnough) {
  std::mt19937 random(17);
  Chain chain = random_chain(9, random);
  for (Stage& s : chain.stages) s.saved_bytes *= 1000003;
  int64_t least = minimum_bytes(chain);
  EXPECT_EQ(plan_rotor(chain, least).cost.peak_bytes, least);
  try {
    plan_rotor(chain, least - 1);
    FAIL() << "planned below the minimum";
  } catch (const Error& error) {
    std::string message = error.what();
    size_t number = message.find("minimum ") + 8;
    EXPECT_EQ(message.substr(0, 23), "recompute: a budget of ") << message;
    EXPECT_NE(message.find(" MiB is below the minimum "), std::string::npos) << message;
    EXPECT_NE(message.find(" MiB of this chain"), std::string::npos) << message;
    double stated = std::stod(message.substr(number));
    EXPECT_GE(int64_t(stated * (1 << 20)), least);
    EXPECT_LE(stated * (1 << 20), double(least) + 0.02 * (1 << 20));
  }
}

TEST(Planner, SimulatesAStepThatIsWorkedOutByHand) {
  Chain chain{.base_bytes = 1000, .before = {.boundary_bytes = 10}};
  for (int i = 0; i < 3; ++i)
    chain.stages.push_back({.forward_seconds = 1,
                            .backward_seconds = 2,
                            .saved_bytes = 100,
                            .boundary_bytes = 10,
                            .workspace_backward_bytes = 10});
  chain.after = {.boundary_bytes = 1};
  // All is kept: 10 + 3 * 110 + the loss; backward of the last stage has two gradients beside what it keeps.
  PlanCost none = simulate(plan_none(3), chain);
  EXPECT_EQ(none.peak_bytes, 1000 + 10 + 330 + 10);
  EXPECT_EQ(none.seconds, 9);
  // One region of all: x0, the gradient of x3, and everything, or in backward one gradient more.
  PlanCost one = simulate({{.begin = 0, .end = 3, .checkpointed = true}}, chain);
  EXPECT_EQ(one.peak_bytes, 1000 + 10 + 330 + 10);
  EXPECT_EQ(one.seconds, 12);
  // Three regions: the last one's replay beside x0, x1, x2 and the gradient of x3.
  PlanCost full = simulate(plan_every(3, 1), chain);
  EXPECT_EQ(full.peak_bytes, 1000 + 30 + 10 + 110);
  EXPECT_EQ(full.seconds, 12);
  // A region that keeps one input inside: the first two stages run three times.
  Plan nested{{.begin = 0,
               .end = 3,
               .checkpointed = true,
               .inside = {{.begin = 0, .end = 2, .checkpointed = true}, {.begin = 2, .end = 3}}}};
  PlanCost deep = simulate(nested, chain);
  EXPECT_EQ(deep.peak_bytes, 1000 + 10 + 220 + 10);
  EXPECT_EQ(deep.seconds, 14);
}

TEST(Planner, CountsGradientsThatStay) {
  Chain chain{.before = {.boundary_bytes = 10}};
  chain.stages = {{.saved_bytes = 100, .boundary_bytes = 10, .gradient_bytes = 7},
                  {.saved_bytes = 5, .boundary_bytes = 10, .gradient_bytes = 1000}};
  chain.after = {.gradient_bytes = 500};
  PlanCost none = simulate(plan_none(2), chain);
  // After backward of stage 1: x0, what stage 0 kept, x1 and its gradient, and what has stayed.
  EXPECT_EQ(none.peak_bytes, 10 + 110 + 10 + 1500);
  // Of regions, a replay of stage 0 alone: x0, the gradient of x1, and what has stayed.
  EXPECT_EQ(minimum_bytes(chain), 10 + 10 + 110 + 1500);
}

TEST(Planner, PlansOneStageAndStagesThatCostNothing) {
  Chain chain{.stages = {Stage{}}};
  EXPECT_EQ(plan_rotor(chain, 0).plan, plan_none(1));
  chain.stages.resize(5);
  EXPECT_EQ(plan_rotor(chain, 0).plan, plan_none(5));
  EXPECT_EQ(frontier(chain).size(), 1u);
  EXPECT_EQ(plan_uniform(chain, 0).plan, plan_none(5));
}

TEST(Planner, RefusesChainsThatAreNone) {
  expect_error([&] { frontier({}); }, "recompute: the chain has no stages");
  expect_error([&] { plan_uniform({}, 1); }, "recompute: the chain has no stages");
  Chain negative{.stages = {{.saved_bytes = -1}}}, endless{.stages = {{.forward_seconds = 1.0 / 0.0}}};
  expect_error([&] { frontier(negative); }, "has a negative number of bytes: -1");
  expect_error([&] { plan_rotor(endless, 1); }, "of the chain takes inf seconds");
  expect_error([&] { simulate(plan_none(2), {.stages = {{}}}); }, "[0, 2) goes beyond a chain of 1 layers");
}

TEST(Planner, PlansAHundredUnlikeStages) {  // trying all plans would not end
  std::mt19937 random(19);
  Chain chain = random_chain(100, random);
  for (Stage& s : chain.stages) s.forward_seconds += 1e-3 * double(random() % 1000);
  EXPECT_GT(frontier(chain).size(), 50u);
}

}  // namespace
}  // namespace reprise::recompute
