// The thread pool: every task once, errors handed to the caller, nesting, callers side by side, changing its
// size.
#include "reprise/core/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "reprise/core/error.h"
#include "reprise/tests/support/errors.h"

namespace reprise {
namespace {

using testing::expect_error;

/// Sets the number of threads for one test.
class Threads {
 public:
  explicit Threads(int count) : before_(num_threads()) { set_num_threads(count); }
  ~Threads() { set_num_threads(before_); }

 private:
  int before_;
};

TEST(ParallelTasks, RunsEachTaskOnce) {
  for (int threads : {1, 2, 4}) {
    Threads scope(threads);
    for (int64_t count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(count));
      parallel_tasks(count, [&](int64_t i) { ++runs[size_t(i)]; });
      for (size_t i = 0; i < runs.size(); ++i) EXPECT_EQ(runs[i], 1) << "task " << i << " of " << count;
    }
  }
}

TEST(ParallelTasks, RunsManyShortJobsInARow) {
  // A worker that is late for one job must not enter the next with the old task, nor a job that is gone.
  Threads scope(4);
  for (int64_t round = 0; round < 3000; ++round) {
    std::atomic<int64_t> sum = 0;
    parallel_tasks(5, [&](int64_t i) { sum += i + round; });
    ASSERT_EQ(sum, 10 + 5 * round);
  }
}

TEST(ParallelFor, CutsBySizeAndGrainAlone) {
  using Pieces = std::set<std::pair<int64_t, int64_t>>;
  auto pieces_of = [](int64_t size, int64_t grain) {
    Pieces pieces;
    std::mutex mutex;
    parallel_for(size, grain, [&](int64_t begin, int64_t end) {
      std::lock_guard lock(mutex);
      pieces.emplace(begin, end);
    });
    return pieces;
  };
  for (int threads : {1, 3}) {
    Threads scope(threads);
    EXPECT_EQ(pieces_of(10, 4), (Pieces{{0, 4}, {4, 8}, {8, 10}}));
    EXPECT_EQ(pieces_of(8, 4), (Pieces{{0, 4}, {4, 8}}));
    EXPECT_EQ(pieces_of(3, 100), (Pieces{{0, 3}}));
    EXPECT_EQ(pieces_of(2, 0), (Pieces{{0, 1}, {1, 2}}));
    EXPECT_EQ(pieces_of(0, 4), Pieces{});
  }
}

TEST(ParallelTasks, RethrowsAnErrorAndStaysUsable) {
  for (int threads : {1, 4}) {
    Threads scope(threads);
    for (int64_t bad : {0, 17, 99}) {
      try {
        parallel_tasks(100, [&](int64_t i) { check(i != bad, "task ", i, " is bad"); });
        FAIL() << "no Error";
      } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()), "task " + std::to_string(bad) + " is bad");
      }
      std::atomic<int> runs = 0;
      parallel_tasks(100, [&](int64_t) { ++runs; });
      EXPECT_EQ(runs, 100);
    }
  }
}

TEST(ParallelTasks, StopsSoonAfterAnError) {
  Threads scope(2);
  std::atomic<int64_t> runs = 0;
  expect_error([&] { parallel_tasks(1'000'000, [&](int64_t) { fail("task ", ++runs); }); }, "task ");
  EXPECT_LE(runs, 2);  // at most one per thread
}

TEST(ParallelTasks, NestedCallsRunOnTheCallingThread) {
  Threads scope(3);
  std::atomic<int> runs = 0, elsewhere = 0;
  parallel_tasks(20, [&](int64_t) {
    auto thread = std::this_thread::get_id();
    parallel_tasks(30, [&](int64_t) {
      ++runs;
      if (std::this_thread::get_id() != thread) ++elsewhere;
    });
  });
  EXPECT_EQ(runs, 600);
  EXPECT_EQ(elsewhere, 0);
}

TEST(ParallelTasks, ErrorsPassThroughNestedCalls) {
  Threads scope(3);
  expect_error(
      [&] {
        parallel_tasks(4, [&](int64_t) { parallel_tasks(4, [&](int64_t i) { check(i != 2, "two"); }); });
      },
      "two");
}

TEST(ParallelTasks, ServesTwoCallingThreadsAtOnce) {
  Threads scope(3);
  auto work = [](int64_t& total) {
    for (int round = 0; round < 300; ++round) {
      std::atomic<int64_t> sum = 0;
      parallel_tasks(20, [&](int64_t i) { sum += i; });
      total += sum;
    }
  };
  int64_t total_a = 0, total_b = 0;
  std::thread other([&] { work(total_b); });
  work(total_a);
  other.join();
  EXPECT_EQ(total_a, 300 * 190);
  EXPECT_EQ(total_b, 300 * 190);
}

TEST(SetNumThreads, IsReportedAndChecked) {
  Threads scope(3);
  EXPECT_EQ(num_threads(), 3);
  set_num_threads(1);
  EXPECT_EQ(num_threads(), 1);
  expect_error([&] { set_num_threads(0); }, "set_num_threads: needs 1 to", "got 0");
  expect_error([&] { set_num_threads(-2); }, "got -2");
  EXPECT_EQ(num_threads(), 1);
}

// Threads that work beside a computation must not take its threads: every loop of this thread runs on all three, though
// four others start loops all the time.
TEST(SerialScope, LeavesThePoolToOthers) {
  Threads scope(3);
  std::atomic<bool> stop{false};
  std::atomic<int> elsewhere{0};  // pieces of the others' loops that another thread ran
  std::vector<std::thread> others;
  for (int i = 0; i < 4; ++i)
    others.emplace_back([&] {
      SerialScope serial;
      while (!stop)
        parallel_tasks(8, [&, self = std::this_thread::get_id()](int64_t) {
          elsewhere += std::this_thread::get_id() != self;
        });
    });
  int shared_by_all = 0;
  for (int loop = 0; loop < 50; ++loop) {
    std::atomic<int> arrived{0};
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    parallel_tasks(3, [&](int64_t) {
      ++arrived;
      while (arrived < 3 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
      if (arrived < 3) arrived = -1000;
    });
    shared_by_all += arrived == 3;
    if (arrived < 3) break;
  }
  stop = true;
  for (std::thread& other : others) other.join();
  EXPECT_EQ(shared_by_all, 50);
  EXPECT_EQ(elsewhere, 0);
}

TEST(SerialScope, EndsWithItsLife) {
  Threads scope(2);
  auto runs_on_both = [] {
    std::set<std::thread::id> threads;
    std::mutex mutex;
    parallel_tasks(2, [&](int64_t) {
      {
        std::lock_guard lock(mutex);
        threads.insert(std::this_thread::get_id());
      }
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
      while (std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    });
    return threads.size() == 2;
  };
  {
    SerialScope outer;
    { SerialScope inner; }
    EXPECT_FALSE(runs_on_both());
  }
  EXPECT_TRUE(runs_on_both());
}

}  // namespace
}  // namespace reprise
