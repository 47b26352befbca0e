// The child of a fork computes, ends and forks again, whatever the threads of its parent were doing.
#include "reprise/core/fork.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "reprise/core/error.h"
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

// Uses the pool, the allocator and this thread's state.
int computes() {
  Tensor x = Tensor::zeros({100'000});
  bool right = parallel_sum(1000) == 499'500 && x.to_vector<float>()[99'999] == 0;
  return right ? 0 : 1;
}

class Fork : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::children_have_threads) GTEST_SKIP();
    set_num_threads(3);
    parallel_sum(10);
    alarm(300);
  }
  ~Fork() override {
    alarm(0);
    set_num_threads(before_);
  }
  int before_ = num_threads();
};

TEST_F(Fork, LeavesTheChildThreadsOfItsOwn) {
  for (int round = 0; round < 20; ++round) {
    ASSERT_EQ(outcome_of_child(computes), "exit 0");
    ASSERT_EQ(outcome_of_child([] { return num_threads(); }), "exit 3");
    ASSERT_EQ(computes(), 0);
  }
}

TEST_F(Fork, LetsAChildEndThatDoesNothing) {
  for (int round = 0; round < 20; ++round) {
    parallel_sum(100);
    ASSERT_EQ(outcome_of_child([] { return 7; }), "exit 7");
  }
}

TEST_F(Fork, LetsAChildForkAgain) {
  auto grandchild = [] {
    if (computes()) return 1;
    return outcome_of_child(computes) == "exit 0" ? computes() : 2;
  };
  EXPECT_EQ(outcome_of_child(grandchild), "exit 0");
  EXPECT_EQ(outcome_of_child([&] { return outcome_of_child(grandchild) == "exit 0" ? 0 : 3; }), "exit 0");
}

TEST_F(Fork, LetsAChildChangeItsThreads) {
  auto change = [] {
    set_num_threads(2);
    if (num_threads() != 2 || computes()) return 1;
    set_num_threads(1);
    return computes();
  };
  EXPECT_EQ(outcome_of_child(change), "exit 0");
  EXPECT_EQ(num_threads(), 3);
}

TEST_F(Fork, MeetsThreadsThatComputeAndAllocate) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer's malloc stays locked in a child if another thread was inside it";
#endif
  std::atomic<bool> done = false;
  auto work = [&] {
    while (!done)
      for (int64_t n : {1, 100, 10'000}) {
        Tensor x = Tensor::empty({n});
        parallel_sum(n % 97);
      }
  };
  std::thread first(work), second(work);
  for (int round = 0; round < 50; ++round) EXPECT_EQ(outcome_of_child(computes), "exit 0");
  done = true;
  first.join();
  second.join();
}

TEST_F(Fork, WaitsForWhoeverHoldsAForkSafeMutex) {
  ForkSafeMutex mutex;
  for (int round = 0; round < 10; ++round) {
    std::atomic<bool> held = false;
    int left = 0, right = 0;  // equal whenever the mutex is free
    std::thread holder([&] {
      std::lock_guard lock(mutex);
      ++left;
      held = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ++right;
    });
    while (!held) std::this_thread::yield();
    auto finds_it_whole = [&] {
      std::lock_guard lock(mutex);
      return left == right ? 0 : 1;
    };
    EXPECT_EQ(outcome_of_child(finds_it_whole), "exit 0");
    holder.join();
  }
}

// The child of a task has no threads to finish the loop: it says so, if it goes on at all.
TEST_F(Fork, InsideATaskEndsWithAnAnswer) {
  for (int round = 0; round < 10; ++round) {
    const pid_t parent = getpid();
    std::mutex mutex;
    std::vector<pid_t> children;
    children.reserve(4);  // no thread is within AddressSanitizer's malloc while another forks
    std::string error;
    try {
      parallel_tasks(4, [&](int64_t) {
        pid_t child = fork();
        if (child == 0) {
          alarm(testing::child_seconds);
          return;
        }
        std::lock_guard lock(mutex);
        children.push_back(child);
      });
    } catch (const Error& caught) { error = caught.what(); }
    if (getpid() != parent) _exit(error.find("forked inside") != std::string::npos ? 1 : 2);
    EXPECT_EQ(error, "");
    EXPECT_EQ(children.size(), 4u);
    for (pid_t child : children) EXPECT_EQ(testing::outcome_of(child), "exit 1");
  }
}

}  // namespace
}  // namespace reprise
