// What the sanitizers find in kernels. Each misuse runs in a process of its own, which must die of it; in
// builds without the sanitizer there is nothing to test.
#include <cstdlib>
#include <memory>
#include <vector>

#include "reprise/simt/emulator/sanitizer.h"
#include "reprise/tests/simt/run.h"

namespace reprise::simt::testing {
namespace {

/// Runs `body` in a new process and expects the sanitizer's report.
template <class Body>
void expect_report(Body&& body, const char* report) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto died = [](int status) { return !::testing::ExitedWithCode(0)(status); };
  EXPECT_EXIT((body(), std::exit(0)), died, report);
}

template <class Body>
void expect_clean(Body&& body) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT((body(), std::exit(0)), ::testing::ExitedWithCode(0), "");
}

struct AddressSanitizer : ::testing::Test {
  void SetUp() override {
    if (!sanitizer::address) GTEST_SKIP() << "built without AddressSanitizer";
  }
};
struct ThreadSanitizer : ::testing::Test {
  void SetUp() override {
    if (!sanitizer::thread) GTEST_SKIP() << "built without ThreadSanitizer";
  }
};

__global__ void static_overflow_kernel(int i) {
  REPRISE_SHARED(float, a, [32]);
  REPRISE_SHARED(float, b, [32]);
  volatile float* p = a;
  b[threadIdx.x] = 0;
  p[i] = 1;
}
TEST_F(AddressSanitizer, FindsOverflowOfStaticArrays) {
  expect_clean([] { run(1, 32, static_overflow_kernel, 31); });
  expect_report([] { run(1, 32, static_overflow_kernel, 32); }, "use-after-poison");
}

__global__ void dynamic_overflow_kernel(int i) {
  REPRISE_DYNAMIC_SHARED(bytes);
  volatile unsigned char* p = bytes;
  p[i] = 1;
}
void run_dynamic_overflow(int i) {
  launch({.name = "k", .grid = 2, .block = 32, .shared_bytes = 100, .stream = Stream(Device::cuda())},
         dynamic_overflow_kernel, i);
}
TEST_F(AddressSanitizer, FindsOverflowOfTheDynamicArray) {
  expect_clean([] { run_dynamic_overflow(99); });
  expect_report([] { run_dynamic_overflow(100); }, "use-after-poison");
  expect_report([] { run_dynamic_overflow(-1); }, "use-after-poison");
}

__global__ void read_kernel(const float* x, float* y, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i <= n) y[i % 2] = __ldg(x + i);
}
TEST_F(AddressSanitizer, FindsReadsBeyondABuffer) {
  auto read = [](int n) {
    auto x = std::make_unique<float[]>(100);
    float y[2];
    run(4, 32, read_kernel, static_cast<const float*>(x.get()), y, n);
  };
  expect_clean([&] { read(99); });
  expect_report([&] { read(100); }, "heap-buffer-overflow");
}

__global__ void vector_kernel(const float* x, float* y, int offset) {
  *y = reinterpret_cast<const float4*>(x + offset)->x;
}
TEST_F(AddressSanitizer, FindsMisalignedVectors) {
  alignas(16) static const float x[8] = {};
  static float y = 0;
  expect_clean([] { run(1, 1, vector_kernel, static_cast<const float*>(x), &y, 4); });
  expect_report([] { run(1, 1, vector_kernel, static_cast<const float*>(x), &y, 1); }, "misaligned address");
}

__global__ void throwing_kernel(std::vector<int>* x, int i) { (*x)[0] = x->at(size_t(i)); }
TEST_F(AddressSanitizer, SurvivesFailedLaunches) {
  expect_clean([] {
    std::vector<int> x(4);
    for (int i = 0; i < 3; ++i) error_of(2, 64, throwing_kernel, &x, 4);
    run(2, 64, throwing_kernel, &x, 3);
    run_dynamic_overflow(99);
  });
}

__global__ void no_barrier_kernel(int* y, int barrier) {
  REPRISE_SHARED(int, a, [64]);
  a[threadIdx.x] = int(threadIdx.x);
  if (barrier == 1) __shfl_sync(full_warp, 0, 0);
  if (barrier == 2) __syncwarp();
  if (barrier == 3) __syncthreads();
  y[threadIdx.x] = a[threadIdx.x / 32 * 32 + 31 - threadIdx.x % 32];
}
void run_no_barrier(int barrier) {
  std::vector<int> y(2 * 64);
  run(2, 64, no_barrier_kernel, y.data(), barrier);
}
TEST_F(ThreadSanitizer, FindsRacesInSharedMemory) {
  auto run_one_block = [](int barrier) {
    std::vector<int> y(64);
    run(1, 64, no_barrier_kernel, y.data(), barrier);
  };
  expect_report([&] { run_one_block(0); }, "data race");
  expect_report([&] { run_one_block(1); }, "data race");  // a shuffle orders no memory
  expect_clean([&] { run_one_block(2); });
  expect_clean([&] { run_one_block(3); });
}

TEST_F(ThreadSanitizer, FindsRacesBetweenBlocks) {
  expect_report([] { run_no_barrier(3); }, "data race");  // both blocks write the same elements of y
}

__global__ void own_element_kernel(float* x) {
  REPRISE_SHARED(float, a, [64]);
  a[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
  __syncthreads();
  x[blockIdx.x * 64 + threadIdx.x] = a[63 - threadIdx.x] + 1;
}
TEST_F(ThreadSanitizer, AcceptsLaunchesOneAfterTheOther) {
  for (int workers : {1, 3})
    expect_clean([&] {
      emulator_options().workers = workers;
      std::vector<float> x(64 * 9, 1.0f);
      for (int i = 0; i < 3; ++i) run(9, 64, own_element_kernel, x.data());
      for (float& value : x) value += 1;
    });
}

__global__ void count_kernel(int* count, int* slot, bool fenced) {
  if (threadIdx.x != 0) return;
  slot[blockIdx.x] = 1;
  if (fenced) __threadfence();
  if (atomicAdd(count, 1) != int(gridDim.x) - 1) return;
  if (fenced) __threadfence();
  for (unsigned i = 0; i < gridDim.x; ++i) slot[i] += 1;
}
TEST_F(ThreadSanitizer, KnowsFences) {
  auto count = [](bool fenced) {
    emulator_options().workers = 1;
    int done = 0, slots[5] = {};
    run(5, 32, count_kernel, &done, slots, fenced);
  };
  expect_clean([&] { count(true); });
  expect_report([&] { count(false); }, "data race");
}

__global__ void failing_kernel(int* y) {
  y[threadIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x == 5) __trap();
  __syncthreads();
}
TEST_F(ThreadSanitizer, SurvivesFailedLaunches) {
  expect_clean([] {
    std::vector<int> y(64);
    for (int i = 0; i < 3; ++i) error_of(1, 64, failing_kernel, y.data());
    for (int& value : y) value = 0;
    std::vector<float> x(64 * 2);
    run(2, 64, own_element_kernel, x.data());
  });
}

}  // namespace
}  // namespace reprise::simt::testing
