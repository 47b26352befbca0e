// A rank whose world ends while it computes: how its process ends.
// labels: slow
#include "reprise/apps/common/rank_watch.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <cstdlib>
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

// A rank of --ranks that computes for 30 s; says by the pipe that it is watched.
int computes_after_its_launcher(int ready) {
  for (const auto& [name, value] : {std::pair{"REPRISE_RANK", "0"},
                                    {"REPRISE_RANKS", "1"},
                                    {"REPRISE_JOB", "job"},
                                    {"REPRISE_PORT", "20000"}})
    setenv(name, value, 1);
  const auto groups = distributed::make_thread_groups(1);
  const RankWatch watch(*groups[0], std::chrono::milliseconds(200));
  if (write(ready, "", 1) != 1) return 1;
  std::this_thread::sleep_for(std::chrono::seconds(30));
  return 0;
}

// The launcher dies as soon as the rank is watched; the rank is then a child of this process.
TEST_F(RankWatchEnds, ARankWhoseLauncherHasDied) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t launcher = testing::fork_at_rest();
  if (launcher == 0) {
    if (fork() == 0) alarm(testing::child_seconds), std::_Exit(computes_after_its_launcher(ends[1]));
    char byte = 0;
    std::_Exit(read(ends[0], &byte, 1) == 1 ? 0 : 1);
  }
  EXPECT_EQ(testing::outcome_of(launcher), "exit 0");
  int status = 0;
  EXPECT_GT(waitpid(-1, &status, 0), 0);
  EXPECT_EQ(testing::describe(status), "exit 3");
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  close(ends[0]), close(ends[1]);
}

}  // namespace
}  // namespace reprise::apps
