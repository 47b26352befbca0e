// Loads of shared memory that no thread has written, and accesses outside of its arrays and of device buffers: reported
// where kernels are compiled with the checks of simt/emulator/access_hooks.cpp, as this file is.
#include <array>
#include <vector>

#include "reprise/core/cuda/runtime.h"
#include "reprise/core/tensor.h"
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

template <class T>
__global__ void load_kernel(void* y, const char* x, int byte) {
  *static_cast<T*>(y) = *reinterpret_cast<const T*>(x + byte);
}
template <class T>
__global__ void store_kernel(char* y, int byte) {
  *reinterpret_cast<T*>(y + byte) = T{};
}

struct DeviceBuffer : AccessChecks {
  Tensor x = Tensor::zeros({5}, DType::f32, Device::cuda());  // 20 bytes
  char* data = static_cast<char*>(x.view().data);
  float4 y = {};

  template <class T>
  std::string load(int byte) {
    return error_of(1, 1, load_kernel<T>, &y, data, byte);
  }
  template <class T>
  std::string store(int byte) {
    return error_of(1, 1, store_kernel<T>, data, byte);
  }
};

TEST_F(DeviceBuffer, IsTouchedToItsLastByte) {
  EXPECT_EQ(load<float>(16), "");
  EXPECT_EQ(load<float4>(0), "");
  EXPECT_EQ(store<char>(19), "");
  EXPECT_EQ(store<float4>(0), "");
}

TEST_F(DeviceBuffer, EndsToTheByte) {
  expect_contains(load<float>(20),
                  "k: loads from outside of device buffers: 4 bytes at byte 0 behind a buffer");
  expect_contains(store<char>(20), "k: stores outside of device buffers: 1 byte at byte 0 behind a buffer");
  expect_contains(store<char>(20), "block (0, 0, 0), thread (0, 0, 0)");
  expect_contains(load<float4>(16), "16 bytes of which a buffer has the first 4");
  expect_contains(store<float2>(24), "8 bytes at byte 4 behind a buffer");
}

TEST_F(DeviceBuffer, BeginsWhereItBegins) {
  expect_contains(load<char>(-1), "loads from outside of device buffers: 1 byte");
  expect_contains(store<float2>(-4), "stores outside of device buffers: 8 bytes");
}

// Of whole pages too: what is behind an allocation is not the next one.
TEST_F(DeviceBuffer, HasNoNeighbour) {
  void* stream = Stream(Device::cuda()).handle();
  for (int bytes : {4096, 4084}) {
    SCOPED_TRACE(bytes);
    std::array<void*, 3> blocks;
    for (void*& block : blocks) {
      block = cuda::allocate(0, size_t(bytes));
      cuda::mark_memory(block, size_t(bytes), true, stream);
    }
    for (void* block : blocks) {
      data = static_cast<char*>(block);
      EXPECT_EQ(load<float>(bytes - 4), "");
      expect_contains(load<char>(bytes), "1 byte at byte 0 behind a buffer");
      expect_contains(load<char>(-1), "1 byte at byte 1 before a buffer");
      cuda::release(0, block);
      expect_contains(load<char>(0), "loads from outside of device buffers");
    }
  }
}

TEST_F(DeviceBuffer, IsNoneOnceItIsReleased) {
  x = {};
  synchronize(Device::cuda());
  expect_contains(load<float>(0), "loads from outside of device buffers");
}

TEST_F(DeviceBuffer, HasTheSizeOfTheLastTensorThere) {
  const char* place = data;
  for (int n : {7, 2, 7}) {
    SCOPED_TRACE(n);
    x = {};
    x = Tensor::zeros({n}, DType::f32, Device::cuda());
    data = static_cast<char*>(x.view().data);
    EXPECT_EQ(data, place) << "what this test is for";
    EXPECT_EQ(load<float>(4 * n - 4), "");
    expect_contains(load<float>(4 * n), "4 bytes at byte 0 behind a buffer");
  }
}

}  // namespace
}  // namespace reprise::simt::testing
