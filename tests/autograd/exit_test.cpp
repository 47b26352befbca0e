// Statics and thread-locals may train in their destructors, when this thread's own state is gone already.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "reprise/autograd/anomaly.h"
#include "reprise/autograd/ops.h"
#include "reprise/core/parallel.h"
#include "reprise/tests/support/child.h"

namespace reprise {
namespace {

// Forward and backward through what keeps memory per thread: products and attention.
bool trains() {
  OpScope scope("at the end");
  Tensor x = Tensor::from(std::vector<float>(2 * 4 * 8 * 16, 0.5f), {2, 4, 8, 16}).set_requires_grad();
  Tensor w = Tensor::from(std::vector<float>(16 * 16, 0.25f), {16, 16}).set_requires_grad();
  Tensor y = matmul(x, w);
  attention(y, y, y).sum().backward();
  return w.grad().defined() && x.grad().defined() && autograd::op_scope() == "at the end";
}

struct TrainsAtExit {
  ~TrainsAtExit() { _exit(trains() ? 5 : 6); }
};

TEST(AtExit, AStaticsDestructorTrains) {
  if (!testing::children_have_threads) GTEST_SKIP();
  auto early = [] {
    static TrainsAtExit one;
    return trains() ? 0 : 1;
  };
  auto late = [] {
    if (!trains()) return 1;
    static TrainsAtExit one;
    return 0;
  };
  for (int round = 0; round < 5; ++round) {
    EXPECT_EQ(testing::outcome_of_child(early), "exit 5");
    EXPECT_EQ(testing::outcome_of_child(late), "exit 5");
  }
}

TEST(AtExit, AGraphMayBeHeldByAStatic) {
  auto holds = [] {
    static Tensor y;
    y = (Tensor::zeros({3}).set_requires_grad() * 2.0).sum();
    thread_local Tensor z;
    z = y * 3.0;
    return 0;
  };
  EXPECT_EQ(testing::outcome_of_child(holds), "exit 0");
}

// What a thread asks for after its own buffers are gone stays (core/thread_owned.h).
extern "C" [[gnu::used]] const char* __lsan_default_suppressions() { return "leak:reprise::thread_owned"; }

struct TrainsAsItsThreadEnds {
  static inline std::atomic<int> right = 0;
  int touched = 0;
  ~TrainsAsItsThreadEnds() { right += trains(); }
};

TEST(AtExit, AThreadLocalsDestructorTrains) {
  for (int round = 0; round < 5; ++round)
    std::thread([] {
      thread_local TrainsAsItsThreadEnds local;
      local.touched = 1;
      trains();
    }).join();
  EXPECT_EQ(TrainsAsItsThreadEnds::right, 5);
}

}  // namespace
}  // namespace reprise
