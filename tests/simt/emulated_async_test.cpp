// What happens behind a kernel's back: cp.async's laziness, queued operations, waiting for a condition.
#include <algorithm>
#include <cstring>
#include <vector>

#include "reprise/tests/simt/run.h"

namespace reprise::simt::testing {
namespace {

void copy_later(int* to, int value) {
  CpAsync copy{.to = to, .bytes = 4, .data = {}};
  std::memcpy(copy.data.data(), &value, 4);
  cp_async_push(copy);
}

__global__ void copies_kernel(int* seen) {
  REPRISE_SHARED(int, a, [4]);
  for (int i = 0; i < 4; ++i) a[i] = -1;
  auto look = [&] {
    for (int i = 0; i < 4; ++i) *seen++ = a[i];
  };
  copy_later(a, 10);
  copy_later(a + 1, 11);
  cp_async_commit_group();
  copy_later(a + 2, 12);
  cp_async_commit_group();
  copy_later(a + 3, 13);
  look();
  cp_async_wait(1);
  look();
  cp_async_wait(0);
  look();
  cp_async_wait(-1);
  look();
}

TEST(Async, CopiesArriveByTheWaitThatCoversThem) {
  std::vector<int> seen(16);
  run(1, 1, copies_kernel, seen.data());
  EXPECT_EQ(seen, (std::vector<int>{-1, -1, -1, -1, 10, 11, -1, -1, 10, 11, 12, -1, 10, 11, 12, 13}));
}

__global__ void late_kernel(int* y, int n) {
  REPRISE_SHARED(int, done, );
  if (threadIdx.x == 0) {
    done = 0;
    for (int i = 0; i < n; ++i)
      async_submit([i, n, y, counter = &done] {
        y[*counter] = i;
        *counter += 1;
        if (*counter == n) y[n] = 1;
      });
  }
  __syncthreads();
  if (threadIdx.x == 1) y[n + 1] = done;  // how much has landed by now
  struct Condition {
    const int* counter;
    int want;
  } condition{&done, n};
  wait_until([](void* p) { return *static_cast<Condition*>(p)->counter == static_cast<Condition*>(p)->want; },
             &condition, {"wait"});
}

std::vector<int> landed(Order order, uint64_t seed) {
  EmulatorOptions options = emulator_options();
  options.order = order;
  options.seed = seed;
  WithOptions scope(options);
  std::vector<int> y(10, -1);
  run(1, 64, late_kernel, y.data(), 8);
  EXPECT_EQ(y[8], 1);
  return y;
}

TEST(Async, OperationsLandAsLateAsTheyCan) {
  EXPECT_EQ(landed(Order::forward, 1), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 1, 0}));
  EXPECT_EQ(landed(Order::reverse, 1), (std::vector<int>{7, 6, 5, 4, 3, 2, 1, 0, 1, 0}));
}

TEST(Async, OperationsLandAtRandomMoments) {
  bool early = false;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    std::vector<int> y = landed(Order::random, seed);
    early = early || y[9] > 0;
    y.resize(8);
    std::sort(y.begin(), y.end());
    EXPECT_EQ(y, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  }
  EXPECT_TRUE(early);
}

__global__ void abandoned_kernel(int* y) {
  if (threadIdx.x == 0) async_submit([y] { *y = 1; });
}

TEST(Async, OperationsLandEvenIfNobodyWaits) {
  int y = 0;
  run(1, 32, abandoned_kernel, &y);
  EXPECT_EQ(y, 1);
}

__global__ void failing_operation_kernel(bool wait) {
  if (threadIdx.x == 5) async_submit([] { fail({"copy"}, "no such tile"); });
  if (wait) wait_until([](void*) { return false; }, nullptr, {"wait"});
}

TEST(Async, FailuresNameTheThreadThatAsked) {
  for (bool wait : {true, false}) {
    std::string error = error_of(1, 32, failing_operation_kernel, wait);
    expect_contains(error, "k: copy: no such tile");
    expect_contains(error, "thread (5, 0, 0)");
  }
}

__global__ void never_kernel() {
  if (threadIdx.x == 3) wait_until([](void*) { return false; }, nullptr, {"mbarrier wait"});
}

TEST(Async, ReportsWaitsThatNeverEnd) {
  std::string error = error_of(1, 32, never_kernel);
  expect_contains(error, "deadlock");
  expect_contains(error, "lanes 00000008: wait in mbarrier wait at ");
  expect_contains(error, "lanes fffffff7: exited");
}

__global__ void rows_kernel(uint32_t step) {
  std::array<uint32_t, 8> offsets{};
  for (uint32_t i = 0; i < 8; ++i) offsets[i] = 1024 + i * step;
  count_matrix_rows(offsets);
}

TEST(Async, CountsBankConflictsOfMatrixRows) {
  auto conflicts = [](uint32_t step) {
    run(1, 1, rows_kernel, step);
    EXPECT_EQ(last_launch_stats().matrix_row_phases, 1u);
    return last_launch_stats().matrix_bank_conflicts;
  };
  EXPECT_EQ(conflicts(16), 0u);
  EXPECT_EQ(conflicts(128), 7u);
  EXPECT_EQ(conflicts(128 + 16), 0u) << "a padded row";
  EXPECT_EQ(conflicts(64), 6u);
  EXPECT_EQ(conflicts(0), 0u) << "one row, read by all";
}

}  // namespace
}  // namespace reprise::simt::testing
