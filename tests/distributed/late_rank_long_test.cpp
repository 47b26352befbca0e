// LateRank: who computes for long, or has little of the machine, is neither late nor silent.
// labels: long
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>

#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/support/child.h"

namespace reprise::distributed {
namespace {

using testing::Ranks;
using namespace std::chrono_literals;

struct LateRank : ::testing::Test {
  void SetUp() override {
    if (!has_gloo() || !testing::children_have_threads)
      GTEST_SKIP() << "needs Gloo, and children that start threads";
  }
};

// One rank makes no call for ten times the peer timeout, and half the time in which it would be late.
TEST_F(LateRank, ThatComputesIsWaitedFor) {
  const auto wrong = testing::run_ranks(Ranks::gloo, 3,
                                        [](ProcessGroup& group) -> std::string {
                                          group.barrier();
                                          const auto begin = Clock::now();
                                          while (group.rank() == 1 && Clock::now() - begin < 30s) {}
                                          group.barrier();
                                          return Clock::now() - begin < 29s ? "it was not waited for" : "";
                                        },
                                        {.timeout = 60s});
  EXPECT_EQ(wrong, std::vector<std::string>(3));
}

constexpr unsigned load_seconds = 600;

// Processes that compute beside the ranks, as long as they live.
class Load {
 public:
  explicit Load(int processes) {
    for (int i = 0; i < processes; ++i) {
      const pid_t child = testing::fork_at_rest();
      if (child < 0) throw std::runtime_error("fork");
      if (child > 0) {
        children_.push_back(child);
        continue;
      }
      alarm(load_seconds);
      for (std::atomic<int> n{0};; ++n) {}
    }
  }
  ~Load() {
    for (const pid_t child : children_) kill(child, SIGKILL);
    for (const pid_t child : children_) waitpid(child, nullptr, 0);
  }
  Load(const Load&) = delete;

 private:
  std::vector<pid_t> children_;
};

TEST_F(LateRank, OfALoadedMachineIsNone) {
  const Load load(8);
  const auto wrong = testing::run_ranks(Ranks::gloo, 2, [](ProcessGroup& group) -> std::string {
    alarm(load_seconds);
    for (int step = 0; step < 1000; ++step) {
      const Tensor x = Tensor::zeros({1000}).fill_(step);
      group.all_reduce(x).wait();
      if (x.to_vector<float>().back() != 2 * float(step)) return "another sum";
    }
    return "";
  });
  EXPECT_EQ(wrong, std::vector<std::string>(2));
}

}  // namespace
}  // namespace reprise::distributed
