// A rank whose world ends while it computes: how its process ends.
// labels: slow
#include "reprise/apps/common/rank_watch.h"

#include <gtest/gtest.h>

#include <new>

#include "reprise/apps/common/program.h"
#include "reprise/tests/distributed/broken_transport.h"
#include "reprise/tests/support/child.h"

namespace reprise::apps {
namespace {

// Of rank 1, which computes on while something ends the world in a call, or rank 0 does.
int computes_on(const std::function<void(distributed::ProcessGroup& rank_0)>& act_of_0,
                const std::function<void()>& act_of_1) {
  return run_program("prog", 0, nullptr, [&] {
    auto groups = testing::make_groups_with_broken(2, 1, testing::Broken::exchange, 0, act_of_1);
    RankWatch watch(*groups[1]);
    const Tensor x = Tensor::zeros({5});
    distributed::Work work = groups[1]->all_reduce(x), other = groups[0]->all_reduce(Tensor::zeros({5}));
    if (act_of_0) act_of_0(*groups[0]);
    std::this_thread::sleep_for(std::chrono::seconds(30));
    return 0;
  });
}

struct RankWatchEnds : ::testing::Test {
  void SetUp() override {
    if (!testing::children_have_threads) GTEST_SKIP() << "needs children that start threads";
  }
};

TEST_F(RankWatchEnds, ARankThatLacksMemoryInACallAsElsewhere) {
  EXPECT_EQ(testing::outcome_of_child([] { return computes_on({}, [] { throw std::bad_alloc(); }); }),
            "exit 2");
}

TEST_F(RankWatchEnds, ARankWhereAnotherOneFailed) {
  EXPECT_EQ(testing::outcome_of_child([] {
              return computes_on([](distributed::ProcessGroup& rank_0) { rank_0.abort("enough"); }, [] {});
            }),
            "exit 4");
}

}  // namespace
}  // namespace reprise::apps
