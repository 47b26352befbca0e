// The planner against all plans that there are.
// labels: slow
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "reprise/autograd/recompute/planner/planner.h"
#include "reprise/tests/autograd/recompute/planner/random_chains.h"

namespace reprise::recompute {
namespace {

using testing::random_chain;

// Every plan of layers [begin, end), regions in regions included. What is left out: a region that is nothing
// but a region, and, inside of regions, one at the end: it would be played again at once.
std::vector<Plan> all_plans(int64_t begin, int64_t end, bool inside = false) {
  if (begin == end) return {Plan()};
  std::vector<Plan> plans;
  auto add = [&](const Segment& first, const std::vector<Plan>& rests) {
    for (const Plan& rest : rests) {
      plans.push_back({first});
      plans.back().insert(plans.back().end(), rest.begin(), rest.end());
    }
  };
  add({.begin = begin, .end = begin + 1}, all_plans(begin + 1, end, inside));
  for (int64_t s = begin + 1; s <= end - inside; ++s) {
    std::vector<Plan> rests = all_plans(s, end, inside);
    for (Plan& within : all_plans(begin, s, true))
      add({.begin = begin, .end = s, .checkpointed = true, .inside = std::move(within)}, rests);
  }
  return plans;
}

// The costs that no other plan beats in both peak and time.
std::vector<PlanCost> pareto(std::vector<PlanCost> costs) {
  std::sort(costs.begin(), costs.end(), [](const PlanCost& a, const PlanCost& b) {
    return std::pair(a.peak_bytes, a.seconds) < std::pair(b.peak_bytes, b.seconds);
  });
  std::vector<PlanCost> front;
  for (const PlanCost& cost : costs)
    if (front.empty() || cost.seconds < front.back().seconds) front.push_back(cost);
  return front;
}

void expect_front_of_all_plans(const Chain& chain, const std::vector<Plan>& plans) {
  std::vector<PlanCost> costs;
  for (const Plan& plan : plans) costs.push_back(simulate(plan, chain));
  std::vector<PlanCost> expected = pareto(std::move(costs));
  std::vector<Planned> found = frontier(chain);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].cost.peak_bytes, expected[i].peak_bytes) << "point " << i;
    EXPECT_EQ(found[i].cost.seconds, expected[i].seconds) << "point " << i << " " << to_string(found[i].plan);
  }
}

TEST(Planner, FindsWhatTryingAllPlansFindsOnChainsWithSkips) {
  std::mt19937 random(11);
  for (int64_t n = 3; n <= 7; ++n) {
    std::vector<Plan> plans = all_plans(0, n);
    for (int c = 0; c < 200 >> (n - 3); ++c) {
      SCOPED_TRACE(::testing::Message() << n << " stages, chain " << c);
      expect_front_of_all_plans(testing::random_chain_with_skips(n, random), plans);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

// Times are whole numbers, so sums are exact in any order. Short chains are many, long ones few: eight stages
// have 150,000 plans.
TEST(Planner, FindsWhatTryingAllPlansFindsOnAThousandChains) {
  const int chains_of[] = {0, 100, 200, 250, 250, 150, 40, 8, 2};
  std::mt19937 random(7);
  for (int64_t n = 1; n <= 8; ++n) {
    std::vector<Plan> plans = all_plans(0, n);
    for (int c = 0; c < chains_of[n]; ++c) {
      Chain chain = random_chain(n, random);
      SCOPED_TRACE(::testing::Message() << n << " stages, chain " << c);
      expect_front_of_all_plans(chain, plans);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace reprise::recompute
