// Which devices there are, and what is said about those that are not.
#include "reprise/core/device.h"

#include "reprise/tests/core/cuda/cuda_test.h"

namespace reprise {
namespace {

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Device, ReadsTheCpuAndRefusesOtherNames) {
  EXPECT_EQ(Device::parse("cpu"), Device::cpu());
  for (const char* name : {"", "gpu", "cuda:", "cuda:x", "cuda:1x", "cuda:-1", "cuda:+1", "cudas", "CPU"})
    EXPECT_TRUE(says(message_of([&] { Device::parse(name); }), "use cpu, cuda, cuda:N or best")) << name;
}

TEST(Device, SaysWhyThereIsNoCudaDevice) {
  if (Device::cuda_count() > 0) GTEST_SKIP() << "there is one";
  EXPECT_EQ(Device::best(), Device::cpu());
  EXPECT_FALSE(cuda::unavailable_reason().empty());
  for (const std::string& text : {message_of([] { Device::parse("cuda"); }),
                                  message_of([] { Tensor::empty({1}, DType::f32, Device::cuda()); }),
                                  message_of([] { current_stream(Device::cuda()); }),
                                  message_of([] { synchronize(Device::cuda()); })}) {
    EXPECT_TRUE(says(text, "cuda:0")) << text;
    EXPECT_TRUE(says(text, cuda::unavailable_reason())) << text;
  }
}

using CudaDevice = CudaTest;

TEST_F(CudaDevice, IsReadByItsIndex) {
  EXPECT_EQ(Device::parse("cuda"), Device::cuda());
  EXPECT_EQ(Device::parse("cuda:0"), Device::cuda(0));
  std::string beyond = "cuda:" + std::to_string(Device::cuda_count());
  std::string text = message_of([&] { Device::parse(beyond); });
  EXPECT_TRUE(says(text, beyond) && says(text, "the last one is cuda:")) << text;
}

TEST_F(CudaDevice, IsTheBestUnlessItIsTheEmulator) {
  EXPECT_EQ(Device::best(), cuda::is_emulated() ? Device::cpu() : device);
}

TEST_F(CudaDevice, HasTheLimitsThatKernelsRelyOn) {
  const cuda::DeviceProperties& properties = cuda::properties(0);
  EXPECT_FALSE(properties.name.empty());
  EXPECT_GE(properties.major, 8);
  EXPECT_GE(properties.multiprocessors, 1);
  EXPECT_GE(properties.shared_bytes_per_block, 96u << 10);
  EXPECT_GT(properties.memory_bytes, 1u << 30);
  EXPECT_NE(message_of([] { cuda::properties(1000); }), "");
}

// What is taken past the allocator is as another program's.
TEST_F(CudaDevice, KnowsWhatNobodyHasOfItsMemory) {
  constexpr size_t bytes = 64 << 20;
  const size_t before = cuda::free_memory(0);
  EXPECT_GT(before, bytes);
  EXPECT_LE(before, cuda::properties(0).memory_bytes);
  void* data = cuda::allocate(0, bytes);
  ASSERT_NE(data, nullptr);
  EXPECT_LE(cuda::free_memory(0), before - bytes);
  cuda::release(0, data);
}

}  // namespace
}  // namespace reprise
