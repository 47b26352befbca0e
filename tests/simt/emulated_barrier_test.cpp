// Barriers of a block: what they order, who takes part, and the reports of their misuse.
#include <vector>

#include "reprise/tests/simt/run.h"
#include "reprise/tests/support/errors.h"

namespace reprise::simt::testing {
namespace {

__global__ void reverse_kernel(const int* x, int* y, int rounds) {
  REPRISE_SHARED(int, buffer, [256]);
  int value = x[threadIdx.x];
  for (int i = 0; i < rounds; ++i) {
    buffer[threadIdx.x] = value;
    __syncthreads();
    value = buffer[blockDim.x - 1 - threadIdx.x] + 1;
    __syncthreads();
  }
  y[threadIdx.x] = value;
}

TEST(Barrier, OrdersSharedMemory) {
  in_all_orders([] {
    std::vector<int> x(200), y(200);
    for (int i = 0; i < 200; ++i) x[size_t(i)] = i;
    run(1, 200, reverse_kernel, x.data(), y.data(), 5);
    for (int i = 0; i < 200; ++i) EXPECT_EQ(y[size_t(i)], 199 - i + 5);
  });
}

__global__ void votes_kernel(int* y) {
  const int t = int(threadIdx.x);
  y[4 * t] = __syncthreads_count(t % 3 == 0);
  y[4 * t + 1] = __syncthreads_or(t == 77);
  y[4 * t + 2] = __syncthreads_and(t != 77);
  y[4 * t + 3] = __syncthreads_and(t < 100) + 10 * __syncthreads_or(t > 100);
}

TEST(Barrier, CountsVotes) {
  in_all_orders([] {
    std::vector<int> y(400);
    run(1, 100, votes_kernel, y.data());
    for (size_t t = 0; t < 100; ++t) {
      EXPECT_EQ(y[4 * t], 34);
      EXPECT_EQ(y[4 * t + 1], 1);
      EXPECT_EQ(y[4 * t + 2], 0);
      EXPECT_EQ(y[4 * t + 3], 1);
    }
  });
}

__global__ void early_exit_kernel(int* y, unsigned n) {
  if (threadIdx.x >= n) return;
  int sum = __syncthreads_count(1);
  __syncthreads();
  y[threadIdx.x] = sum;
}

TEST(Barrier, DoesNotWaitForExitedThreads) {
  in_all_orders([] {
    std::vector<int> y(64);
    run(1, 64, early_exit_kernel, y.data(), 7u);
    for (size_t i = 0; i < 64; ++i) EXPECT_EQ(y[i], i < 7 ? 7 : 0);
  });
}

__global__ void producer_kernel(int* y, int rounds) {  // warp 0 fills, warp 1 reads: full is 1, empty is 2
  REPRISE_SHARED(int, buffer, [32]);
  const int lane = int(threadIdx.x % 32);
  for (int i = 0; i < rounds; ++i) {
    if (threadIdx.x < 32) {
      if (i > 0) block_barrier(2, 64, {"bar.sync"});
      buffer[lane] = 100 * i + lane;
      bar_arrive(1, 64, {"bar.arrive"});
    } else {
      block_barrier(1, 64, {"bar.sync"});
      y[32 * i + lane] = buffer[31 - lane];
      if (i + 1 < rounds) bar_arrive(2, 64, {"bar.arrive"});
    }
  }
}

TEST(Barrier, NamedOnesLetProducersRunAhead) {
  in_all_orders([] {
    std::vector<int> y(32 * 4);
    run(1, 64, producer_kernel, y.data(), 4);
    for (int i = 0; i < 128; ++i) EXPECT_EQ(y[size_t(i)], i / 32 * 100 + 31 - i % 32);
  });
}

__global__ void halves_kernel(int* y) {  // each half of the block synchronises alone
  REPRISE_SHARED(int, buffer, [128]);
  const int half = int(threadIdx.x / 64), i = int(threadIdx.x % 64);
  for (int round = 0; round < 1 + 3 * half; ++round) {
    buffer[threadIdx.x] = i;
    block_barrier(1 + half, 64, {"bar.sync"});
    y[threadIdx.x] = buffer[64 * half + 63 - i];
    block_barrier(1 + half, 64, {"bar.sync"});
  }
}

TEST(Barrier, NamedOnesAreApart) {
  in_all_orders([] {
    std::vector<int> y(128);
    run(1, 128, halves_kernel, y.data());
    for (int i = 0; i < 128; ++i) EXPECT_EQ(y[size_t(i)], 63 - i % 64);
  });
}

__global__ void divergent_kernel() {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
}

TEST(Barrier, ReportsDivergence) {
  WithOptions scope({.order = Order::forward});
  std::string error = error_of(1, 64, divergent_kernel);
  expect_contains(error, "k: __syncthreads: divergent barrier: other threads of the block wait at ");
  expect_contains(error, "barrier_test.cpp:");
  expect_contains(error, "block (0, 0, 0), thread (32, 0, 0)");
}

__global__ void deadlock_kernel() {
  if (threadIdx.x == 40) return;
  if (threadIdx.x % 32 < 16) __syncthreads();
  __syncwarp();
}

TEST(Barrier, ReportsDeadlocksByGroupsOfLanes) {
  std::string error = error_of(1, 64, deadlock_kernel);
  expect_contains(error, "k: deadlock in block (0, 0, 0)");
  expect_contains(error, "warp 0, lanes 0000ffff: wait in __syncthreads at ");
  expect_contains(error, "warp 1, lanes ffff0000: wait in __syncwarp at ");
  expect_contains(error, "with mask ffffffff");
  expect_contains(error, "warp 1, lanes 00000100: exited");
  EXPECT_EQ(error_of(1, 64, early_exit_kernel, std::vector<int>(64).data(), 0u), "");
}

__global__ void counts_kernel() { block_barrier(3, threadIdx.x < 32 ? 64 : 96, {"bar.sync"}); }

TEST(Barrier, ReportsDifferentCounts) {
  WithOptions scope({.order = Order::forward});
  expect_contains(error_of(1, 96, counts_kernel), "bar.sync: barrier 3 for 96 threads, others came for 64");
}

__global__ void missing_kernel() { block_barrier(4, 96, {"bar.sync"}); }

TEST(Barrier, ReportsThreadsThatNeverCome) { expect_contains(error_of(1, 64, missing_kernel), "deadlock"); }

__global__ void spin_kernel(int* flag) {
  while (atomicAdd(flag, 0) == 0) {}
}

TEST(Barrier, ReportsThreadsThatSpinForever) {
  EmulatorOptions options = emulator_options();
  options.spin_seconds = 0.05;
  WithOptions scope(options);
  int flag = 0;
  expect_contains(error_of(1, 64, spin_kernel, &flag), "blocks cannot wait for each other");
}

__global__ void lock_kernel(int* lock, int* count) {
  for (bool done = false; !done;) {
    if (atomicCAS(lock, 0, 1) != 0) continue;
    __threadfence();
    ++*count;
    __nanosleep(10);
    __threadfence();
    atomicExch(lock, 0);
    done = true;
  }
}

TEST(Barrier, SpinningThreadsLetOthersRun) {
  in_all_orders([] {
    int lock = 0, count = 0;
    run(2, 64, lock_kernel, &lock, &count);
    EXPECT_EQ(count, 128);
  });
}

TEST(Barrier, RefusesToWaitOutsideAKernel) {
  reprise::testing::expect_error([] { __syncthreads(); }, "__syncthreads: called outside a kernel");
}

}  // namespace
}  // namespace reprise::simt::testing
