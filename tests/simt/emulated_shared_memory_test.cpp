// Shared memory: static and dynamic arrays, their limits, and that nothing written means undefined.
#include <cmath>
#include <vector>

#include "reprise/tests/simt/run.h"
#include "reprise/tests/support/errors.h"

namespace reprise::simt::testing {
namespace {

Launch with_shared(size_t bytes, dim3 grid = 1, dim3 block = 32) {
  return {.name = "k", .grid = grid, .block = block, .shared_bytes = bytes, .stream = Stream(Device::cuda())};
}

template <class T>
__global__ void dynamic_kernel(T* y) {
  REPRISE_DYNAMIC_SHARED(bytes);
  T* values = reinterpret_cast<T*>(bytes);
  if (reinterpret_cast<uintptr_t>(bytes) % 1024 != 0) return;
  values[threadIdx.x] = T(threadIdx.x);
  __syncthreads();
  y[threadIdx.x] = values[blockDim.x - 1 - threadIdx.x];
}

TEST(SharedMemory, DynamicArrayIsAlignedAndOfAnyType) {
  std::vector<double> y(64);
  launch(with_shared(64 * sizeof(double), 1, 64), dynamic_kernel<double>, y.data());
  EXPECT_EQ(y[0], 63);
  std::vector<int> z(64, -1);
  launch(with_shared(64 * sizeof(int), 1, 64), dynamic_kernel<int>, z.data());
  EXPECT_EQ(z[63], 0);
}

__global__ void arrays_kernel(int* y) {
  REPRISE_SHARED(int, a, [32]);
  REPRISE_SHARED(float, b, [4][8]);
  REPRISE_SHARED(double, c, );
  a[threadIdx.x] = int(threadIdx.x);
  b[threadIdx.x / 8][threadIdx.x % 8] = 0.5f;
  if (threadIdx.x == 0) c = 3;
  __syncthreads();
  y[threadIdx.x] = a[31 - threadIdx.x] + int(2 * b[threadIdx.x % 4][threadIdx.x / 4]) + int(c);
}

TEST(SharedMemory, StaticArraysAreApart) {
  std::vector<int> y(32);
  run(1, 32, arrays_kernel, y.data());
  for (int i = 0; i < 32; ++i) EXPECT_EQ(y[size_t(i)], 31 - i + 1 + 3);
}

__global__ void undefined_kernel(float* y, int* z) {
  REPRISE_SHARED(float, a, [32]);
  REPRISE_DYNAMIC_SHARED(bytes);
  if (blockIdx.x == 0) {  // what a block leaves behind is not there for the next one
    a[threadIdx.x] = 1;
    bytes[threadIdx.x] = 1;
    __syncthreads();
    return;
  }
  y[threadIdx.x] = a[threadIdx.x];
  z[threadIdx.x] = bytes[threadIdx.x];
}

TEST(SharedMemory, IsNanUntilWritten) {
  WithOptions scope({.workers = 1});
  std::vector<float> y(32);
  std::vector<int> z(32);
  launch(with_shared(32, 2), undefined_kernel, y.data(), z.data());
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_TRUE(std::isnan(y[i]));
    EXPECT_EQ(z[i], 255);
  }
}

__global__ void large_static_kernel() {
  REPRISE_SHARED(char, a, [40000]);
  REPRISE_SHARED(char, b, [9153]);
  a[0] = b[0] = 1;
}
__global__ void fitting_static_kernel() {
  REPRISE_SHARED(char, a, [40000]);
  a[threadIdx.x] = 1;
}

TEST(SharedMemory, ReportsTooMuchOfIt) {
  std::string error = error_of(1, 1, large_static_kernel);
  expect_contains(error, "k: shared array b: 49153 bytes of static shared memory, the limit is 49152");
  expect_contains(error, "shared_memory_test.cpp:");
  EXPECT_NO_THROW(launch(with_shared(227 * 1024 - 40000), fitting_static_kernel));
  reprise::testing::expect_error(
      [] { launch(with_shared(227 * 1024 - 39999), fitting_static_kernel); },
      "192449 bytes of dynamic and 40000 of static shared memory, the limit is 232448");
}

__global__ void offsets_kernel(bool* good, const void* elsewhere, int what) {
  REPRISE_SHARED(int, a, [8]);
  REPRISE_DYNAMIC_SHARED(bytes);
  const Where where{"test"};
  *good = shared_offset(bytes, 64, where) % 1024 == 0 && shared_offset(a + 1, 28, where) % 4 == 0 &&
          shared_ptr(shared_offset(a + 3, 4, where), 4, where) == a + 3 &&
          __cvta_generic_to_shared(bytes + 5) == __cvta_generic_to_shared(bytes) + 5;
  if (what == 1) shared_offset(bytes, 65, where);
  if (what == 2) shared_offset(a + 7, 8, where);
  if (what == 3) shared_offset(elsewhere, 4, where);
  if (what == 4) shared_ptr(0, 4, where);
  if (what == 5) shared_ptr(shared_offset(bytes, 1, where) + 63, 2, where);
}

TEST(SharedMemory, WindowAddressesNameArraysOnly) {
  bool good = false;
  for (int what = 0; what <= 5; ++what) {
    std::string error;
    try {
      launch(with_shared(64, 1, 1), offsets_kernel, &good, &good, what);
    } catch (const Error& failure) { error = failure.what(); }
    EXPECT_TRUE(good);
    EXPECT_EQ(error.empty(), what == 0) << what << ": " << error;
  }
}

}  // namespace
}  // namespace reprise::simt::testing
