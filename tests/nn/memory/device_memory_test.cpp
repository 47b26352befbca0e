// What there is of a GPU's memory for tensors, where others have some of it.
#include "reprise/nn/memory/step_memory.h"
#include "reprise/tests/core/cuda/cuda_test.h"

namespace reprise::nn {
namespace {

class DeviceMemory : public CudaTest {};

TEST_F(DeviceMemory, IsWhatNobodyHasAndWhatTheAllocatorHas) {
  constexpr size_t bytes = 64 << 20;
  const size_t before = memory_for_tensors(device);
  EXPECT_LE(before, cuda::properties(0).memory_bytes);
  // A driver takes memory in pieces of a few MiB: what is free need not move by the byte.
  constexpr double bookkeeping = double(16 << 20);
  {
    const Tensor ours = Tensor::empty({int64_t(bytes)}, DType::u8, device);
    EXPECT_NEAR(double(memory_for_tensors(device)), double(before), bookkeeping) << "in use by tensors";
  }
  EXPECT_NEAR(double(memory_for_tensors(device)), double(before), bookkeeping) << "kept for tensors";
  void* others = cuda::allocate(0, bytes);
  ASSERT_NE(others, nullptr);
  EXPECT_NEAR(double(memory_for_tensors(device)), double(before - bytes), bookkeeping);
  cuda::release(0, others);
  memory().set_limit(bytes);
  EXPECT_EQ(memory_for_tensors(device), bytes);
  memory().set_limit(0);
}

}  // namespace
}  // namespace reprise::nn
