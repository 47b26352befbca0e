// A program may compute until its very end: in destructors of statics, and on threads that are never joined.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "reprise/core/parallel.h"
#include "reprise/core/tensor.h"
#include "reprise/tests/support/child.h"

namespace reprise {
namespace {

using testing::outcome_of_child;

int64_t parallel_sum(int64_t count) {
  std::atomic<int64_t> sum = 0;
  parallel_tasks(count, [&](int64_t i) { sum += i; });
  return sum;
}

class AtExit : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::children_have_threads) GTEST_SKIP();
    set_num_threads(3);
  }
  ~AtExit() override { set_num_threads(before_); }
  int before_ = num_threads();
};

struct ComputesAtExit {
  Tensor kept = Tensor::zeros({1000});
  ~ComputesAtExit() {
    Tensor other = Tensor::zeros({5000});
    bool right = parallel_sum(1000) == 499'500 && kept.numel() + other.numel() == 6000;
    _exit(right ? 5 : 6);
  }
};

TEST_F(AtExit, AStaticsDestructorComputes) {
  auto before_the_pool = [] {
    static ComputesAtExit early;
    return parallel_sum(1000) == 499'500 ? 0 : 1;
  };
  auto after_the_pool = [] {
    if (parallel_sum(1000) != 499'500) return 1;
    static ComputesAtExit late;
    return 0;
  };
  for (int round = 0; round < 10; ++round) {
    EXPECT_EQ(outcome_of_child(before_the_pool), "exit 5");
    EXPECT_EQ(outcome_of_child(after_the_pool), "exit 5");
  }
}

struct ComputesAsItsThreadEnds {
  Tensor kept = Tensor::zeros({1000});
  static inline std::atomic<int> right = 0;
  ~ComputesAsItsThreadEnds() { right += parallel_sum(1000) == 499'500 && kept.numel() == 1000; }
};

TEST_F(AtExit, AThreadLocalsDestructorComputes) {
  for (int round = 0; round < 10; ++round)
    std::thread([] {
      thread_local ComputesAsItsThreadEnds local;
      (void)local.kept;
    }).join();
  EXPECT_EQ(ComputesAsItsThreadEnds::right, 10);
}

TEST_F(AtExit, ThreadsMayStillWork) {
  auto leaves_threads_working = [] {
    std::atomic<int> begun = 0;
    for (int i = 0; i < 2; ++i)
      std::thread([&begun] {
        for (;; ++begun) {
          Tensor x = Tensor::zeros({1000});
          if (parallel_sum(200) != 19'900) _exit(1);
        }
      }).detach();
    while (begun < 100) std::this_thread::yield();
    std::exit(0);
    return 1;
  };
  for (int round = 0; round < 10; ++round) EXPECT_EQ(outcome_of_child(leaves_threads_working), "exit 0");
}

TEST_F(AtExit, ATaskMayEndTheProgram) {
  auto ends_inside = [] {
    parallel_tasks(100, [](int64_t i) {
      if (i == 50) std::exit(4);
    });
    return 1;
  };
  for (int round = 0; round < 10; ++round) EXPECT_EQ(outcome_of_child(ends_inside), "exit 4");
}

}  // namespace
}  // namespace reprise
