// Loads of shared memory that no thread has written, and accesses outside of its arrays: reported where
// kernels are compiled with the checks of simt/emulator/access_hooks.cpp, as this file is.
#include <array>
#include <vector>

#include "reprise/tests/simt/run.h"

namespace reprise::simt::testing {
namespace {

__global__ void probe_kernel(volatile int* y) {
  REPRISE_SHARED(int, a, [1]);
  *y = static_cast<volatile int*>(a)[0];
}

struct AccessChecks : ::testing::Test {
  void SetUp() override {
    int y = 0;
    if (error_of(1, 1, probe_kernel, &y).empty()) GTEST_SKIP() << "built without checks of shared memory";
  }
};

__global__ void missing_element_kernel(float* y, int writers) {
  REPRISE_SHARED(float, sums, [32]);
  if (int(threadIdx.x) < writers) sums[threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = sums[threadIdx.x];
}

TEST_F(AccessChecks, ReportLoadsOfWhatNobodyWrote) {
  std::vector<float> y(32);
  EXPECT_EQ(error_of(1, 32, missing_element_kernel, y.data(), 32), "");
  std::string error = error_of(1, 32, missing_element_kernel, y.data(), 31);
  expect_contains(
      error, "k: loads shared memory that no thread has written: 4 bytes at byte 124 of shared array sums");
  expect_contains(error, "which has 128, after __syncthreads at ");
  expect_contains(error, "block (0, 0, 0), thread (31, 0, 0)");
}

__global__ void stale_kernel(int* y) {
  REPRISE_SHARED(int, a, [32]);
  if (blockIdx.x == 0) a[threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = a[threadIdx.x];
}

TEST_F(AccessChecks, ReportLoadsOfWhatAnEarlierBlockWrote) {
  std::vector<int> y(32);
  EXPECT_EQ(error_of(1, 32, stale_kernel, y.data()), "");
  expect_contains(error_of(2, 32, stale_kernel, y.data()), "block (1, 0, 0)");
}

__global__ void half_vector_kernel(float4* y, int n) {
  REPRISE_DYNAMIC_SHARED(bytes);
  auto* values = reinterpret_cast<float*>(bytes);
  for (int i = 0; i < n; ++i) values[i] = 0;
  *y = *reinterpret_cast<float4*>(bytes);
}

TEST_F(AccessChecks, ReportVectorsWrittenInPart) {
  float4 y;
  auto error = [&](int n) {
    try {
      launch({.name = "k", .grid = 1, .block = 1, .shared_bytes = 16, .stream = Stream(Device::cuda())},
             half_vector_kernel, &y, n);
    } catch (const Error& failure) { return std::string(failure.what()); }
    return std::string();
  };
  EXPECT_EQ(error(4), "");
  expect_contains(error(3), "16 bytes at byte 0 of the dynamic array, which has 16");
  expect_contains(error(5), "stores outside of shared arrays: 4 bytes at byte 16 of the dynamic array");
}

__global__ void unwaited_copy_kernel(int* y, bool wait) {
  REPRISE_SHARED(int, a, [1]);
  a[0] = 1;
  CpAsync copy{.to = a, .bytes = 4, .data = {7}};
  cp_async_push(copy);
  cp_async_commit_group();
  if (wait) cp_async_wait(0);
  *y = a[0];
}

TEST_F(AccessChecks, ReportLoadsOfCopiesThatAreUnderWay) {
  int y = 0;
  EXPECT_EQ(error_of(1, 1, unwaited_copy_kernel, &y, true), "");
  EXPECT_EQ(y, 7);
  expect_contains(error_of(1, 1, unwaited_copy_kernel, &y, false), "no thread has written");
}

__global__ void atomic_kernel(int* y) {
  REPRISE_SHARED(int, count, );
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, 2);
  __syncthreads();
  if (threadIdx.x == 0) *y = count;
}

TEST_F(AccessChecks, KnowAtomics) {
  int y = 0;
  EXPECT_EQ(error_of(1, 64, atomic_kernel, &y), "");
  EXPECT_EQ(y, 128);
}

}  // namespace
}  // namespace reprise::simt::testing
