// Launches: indices, parameters, limits, orders, workers, host threads, and what a failed launch says.
// labels: concurrency
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "reprise/core/cuda/emulated_queue.h"
#include "reprise/tests/simt/run.h"
#include "reprise/tests/support/errors.h"

namespace reprise::simt::testing {
namespace {

__global__ void record_kernel(int* hits, dim3 grid, dim3 block) {
  if (gridDim.x != grid.x || gridDim.y != grid.y || gridDim.z != grid.z) return;
  if (blockDim.x != block.x || blockDim.y != block.y || blockDim.z != block.z) return;
  int b = int((blockIdx.z * grid.y + blockIdx.y) * grid.x + blockIdx.x);
  int t = int((threadIdx.z * block.y + threadIdx.y) * block.x + threadIdx.x);
  hits[b * int(block.x * block.y * block.z) + t] += 1;
}

TEST(Launch, RunsEachThreadOfEachBlockOnce) {
  in_all_orders([] {
    for (auto [grid, block] : {std::pair<dim3, dim3>{dim3(3, 2, 2), dim3(5, 3, 4)},
                               {dim3(7), dim3(1024)},
                               {dim3(1), dim3(1)},
                               {dim3(2, 3), dim3(4, 4, 64)}}) {
      std::vector<int> hits(size_t(grid.x) * grid.y * grid.z * block.x * block.y * block.z);
      run(grid, block, record_kernel, hits.data(), grid, block);
      EXPECT_EQ(std::accumulate(hits.begin(), hits.end(), 0), int(hits.size()));
      EXPECT_EQ(*std::min_element(hits.begin(), hits.end()), 1);
    }
  });
}

struct Config {
  double scale;
  int table[5];
};
__global__ void by_value_kernel(__grid_constant__ const Config config, float* y, int64_t big) {
  y[threadIdx.x] = float(config.scale * config.table[threadIdx.x]) + float(big >> 32);
}

TEST(Launch, CopiesParameters) {
  std::vector<float> y(5);
  run(1, 5, by_value_kernel, Config{2.0, {1, 2, 3, 4, 5}}, y.data(), int64_t(1) << 33);
  EXPECT_EQ(y, (std::vector<float>{4, 6, 8, 10, 12}));
}

__global__ void nothing_kernel() {}

TEST(Launch, RefusesWhatAGpuRefuses) {
  expect_contains(error_of(1, 1025, nothing_kernel), "k: launch: a block needs 1 to 1024 threads, not 1025");
  expect_contains(error_of(1, 0, nothing_kernel), "1 to 1024 threads, not 0");
  expect_contains(error_of(1, dim3(1, 1, 65), nothing_kernel), "64 threads in z");
  expect_contains(error_of(0, 32, nothing_kernel), "the grid is empty");
  expect_contains(error_of(dim3(1, 0), 32, nothing_kernel), "the grid is empty");
  expect_contains(error_of(dim3(1, 65536), 32, nothing_kernel), "65535 blocks in y and z");
  expect_contains(error_of(dim3(1, 1, 65536), 32, nothing_kernel), "grid (1, 1, 65536), block (32, 1, 1)");
  Launch config{.name = "wide",
                .grid = 1,
                .block = 1,
                .shared_bytes = 227 * 1024 + 1,
                .stream = Stream(Device::cuda())};
  reprise::testing::expect_error([&] { launch(config, nothing_kernel); },
                                 "wide: launch: a block has at most 232448 bytes of shared memory");
  config.shared_bytes = 227 * 1024;
  EXPECT_NO_THROW(launch(config, nothing_kernel));
}

__global__ void throwing_kernel(unsigned block, unsigned thread) {
  if (blockIdx.x == block && threadIdx.x == thread) throw std::out_of_range("beyond the table");
  __syncthreads();
}

// As GPUs of compute capability 8.6, 8.9 and 12.0.
TEST(Launch, RefusesMoreSharedMemoryThanTheDeviceHas) {
  const cuda::DeviceProperties before = cuda::properties(0);
  cuda::DeviceProperties small = before;
  small.shared_bytes_per_block = 99 * 1024;
  cuda::emulated::set_properties(0, small);
  Launch config{
      .name = "wide", .grid = 1, .block = 1, .shared_bytes = 99 * 1024 + 1, .stream = Stream(Device::cuda())};
  reprise::testing::expect_error([&] { launch(config, nothing_kernel); },
                                 "wide: launch: a block has at most 101376 bytes of shared memory");
  config.shared_bytes = 99 * 1024;
  EXPECT_NO_THROW(launch(config, nothing_kernel));
  cuda::emulated::set_properties(0, before);
}

TEST(Launch, TurnsExceptionsIntoErrors) {
  std::string error = error_of(4, 64, throwing_kernel, 2u, 33u);
  expect_contains(error, "beyond the table");
  expect_contains(error, "block (2, 0, 0), thread (33, 0, 0)");
  EXPECT_EQ(error_of(4, 64, throwing_kernel, 9u, 0u), "") << "a failed launch leaves nothing behind";
}

__global__ void trap_kernel() {
  if (threadIdx.x == 3) __trap();
}

TEST(Launch, NamesThePlaceOfATrap) {
  expect_contains(error_of(1, 32, trap_kernel), "k: __trap: the kernel gave up, at ");
  expect_contains(error_of(1, 32, trap_kernel), "launch_test.cpp:");
}

__global__ void order_kernel(std::atomic<int>* next, int* at) {
  at[blockIdx.x * blockDim.x + threadIdx.x] = next->fetch_add(1);
}

std::vector<int> order_of(EmulatorOptions options) {
  options.workers = 1;
  WithOptions scope(options);
  std::atomic<int> next{0};
  std::vector<int> at(2 * 64);
  run(2, 64, order_kernel, &next, at.data());
  return at;
}

TEST(Launch, FollowsTheOrder) {
  std::vector<int> forward(128), reverse(128);
  std::iota(forward.begin(), forward.end(), 0);
  std::iota(reverse.rbegin(), reverse.rend(), 0);
  EXPECT_EQ(order_of({.order = Order::forward}), forward);
  EXPECT_EQ(order_of({.order = Order::reverse}), reverse);
  auto random = order_of({.order = Order::random, .seed = 5});
  EXPECT_NE(random, forward);
  EXPECT_EQ(random, order_of({.order = Order::random, .seed = 5})) << "a seed gives one order";
  EXPECT_NE(random, order_of({.order = Order::random, .seed = 6}));
}

__global__ void sum_kernel(const float* x, float* sums, int n) {
  REPRISE_SHARED(float, partial, [256]);
  float sum = 0;
  for (int i = int(threadIdx.x); i < n; i += 256) sum += x[int(blockIdx.x) * n + i];
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned width = 128; width > 0; width /= 2) {
    if (threadIdx.x < width) partial[threadIdx.x] += partial[threadIdx.x + width];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = partial[0];
}

std::vector<float> sums_of(const std::vector<float>& x, int rows) {
  std::vector<float> sums(size_t(rows), -1.0f);
  run(unsigned(rows), 256, sum_kernel, x.data(), sums.data(), int(x.size()) / rows);
  return sums;
}

TEST(Launch, GivesTheSameResultWithAnyNumberOfWorkers) {
  std::vector<float> x(37 * 301);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 1.0f / float(i + 1);
  const auto want = sums_of(x, 37);
  for (int workers : {1, 2, 5}) {
    EmulatorOptions options = emulator_options();
    options.workers = workers;
    WithOptions scope(options);
    in_all_orders([&] { EXPECT_EQ(sums_of(x, 37), want); });
  }
}

TEST(Launch, MayComeFromSeveralHostThreads) {
  std::vector<float> x(8 * 300, 0.5f);
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int j = 0; j < 3; ++j) right += sums_of(x, 8) == std::vector<float>(8, 150.0f);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 12);
}

__global__ void launching_kernel() { run(1, 1, nothing_kernel); }

TEST(Launch, RefusesToNest) { expect_contains(error_of(1, 1, launching_kernel), "launched inside a kernel"); }

/// In a new process, with the environment variable set: exits with 0 if `fits`, prints an Error.
template <class Fits>
[[noreturn]] void read_options(const char* name, const char* value, Fits&& fits) {
  setenv(name, value, 1);
  try {
    std::exit(fits(emulator_options()) ? 0 : 1);
  } catch (const Error& error) {
    std::fputs(error.what(), stderr);
    std::exit(2);
  }
}

TEST(LaunchOptions, ComeFromTheEnvironment) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto good = ::testing::ExitedWithCode(0), bad = ::testing::ExitedWithCode(2);
  auto reverse = [](const auto& options) { return options.order == Order::reverse; };
  auto seed = [](const auto& options) { return options.seed == 77; };
  auto workers = [](const auto& options) { return options.workers == 3; };
  EXPECT_EXIT(read_options("REPRISE_EMULATOR_ORDER", "reverse", reverse), good, "");
  EXPECT_EXIT(read_options("REPRISE_EMULATOR_ORDER", "back", reverse), bad,
              "forward, reverse or random, got 'back'");
  EXPECT_EXIT(read_options("REPRISE_EMULATOR_SEED", "77", seed), good, "");
  EXPECT_EXIT(read_options("REPRISE_EMULATOR_SEED", "7x", seed), bad,
              "REPRISE_EMULATOR_SEED: needs a number");
  EXPECT_EXIT(read_options("REPRISE_EMULATOR_WORKERS", "3", workers), good, "");
  EXPECT_EXIT(read_options("REPRISE_EMULATOR_WORKERS", "-1", workers), bad, "REPRISE_EMULATOR_WORKERS");
}

__global__ void deep_kernel(volatile int* y, int depth) {
  volatile char frame[1024];
  frame[depth % 1024] = char(depth);
  if (depth > 0) deep_kernel(y, depth - 1);
  y[threadIdx.x] = frame[depth % 1024];
}

TEST(Launch, GivesEachThreadAStack) {
  std::vector<int> y(1024, -1);
  run(1, 1024, deep_kernel, y.data(), 20);
  EXPECT_EQ(y, std::vector<int>(1024, 20));
}

TEST(Launch, CountsWhatItDid) {
  WithOptions scope({.order = Order::forward, .workers = 1});
  std::vector<float> x(300 * 2);
  sums_of(x, 2);
  EXPECT_EQ(last_launch_stats().barriers, 2u * 9 * 256);
  EXPECT_EQ(last_launch_stats().warp_operations, 0u);
}

}  // namespace
}  // namespace reprise::simt::testing
