// REPRISE_EMULATOR_GUARD=1: the host dies where it touches device memory, with a message. And
// AddressSanitizer guards device memory to the byte.
#include <cstdlib>

#include "reprise/core/cuda/emulated_queue.h"
#include "reprise/tests/core/cuda/cuda_test.h"

namespace reprise {
namespace {

float read(const Tensor& x, int64_t at) { return static_cast<const volatile float*>(x.view().data)[at]; }

TEST(EmulatedGuardDeathTest, EndsAProgramWhoseHostReadsDeviceMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer has its own handler";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process of its own, that starts with the guard
  setenv("REPRISE_EMULATOR_GUARD", "1", 1);
  auto body = [] {
    Tensor x = Tensor::from<float>({1, 2, 3}, {3}, Device::cuda());
    Tensor y = Tensor::from<float>({1, 2, 3}, {3}, Device::cuda());
    float sum = 0;
    cuda::emulated::enqueue(current_stream(Device::cuda()).handle(), [&] { sum = read(x, 0) + read(y, 2); });
    synchronize(Device::cuda());
    if (sum != 4 || x.to_vector<float>()[1] != 2) std::exit(1);  // work and copies reach it
    read(x, 0);
  };
  EXPECT_DEATH(body(), "the host touched device memory outside of a kernel");
  unsetenv("REPRISE_EMULATOR_GUARD");
}

#if defined(__SANITIZE_ADDRESS__)
TEST(EmulatedGuardDeathTest, AddressSanitizerSeesTheByteBehindATensor) {
  if (std::getenv("REPRISE_EMULATOR_GUARD")) GTEST_SKIP() << "the guard comes first";
  Tensor x = Tensor::zeros({3}, DType::f32, Device::cuda());
  synchronize(Device::cuda());
  EXPECT_EQ(read(x, 2), 0);
  EXPECT_DEATH(read(x, 3), "use-after-poison");
}

TEST(EmulatedGuardDeathTest, AddressSanitizerSeesMemoryThatIsReleased) {
  if (std::getenv("REPRISE_EMULATOR_GUARD")) GTEST_SKIP() << "the guard comes first";
  Tensor x = Tensor::zeros({3}, DType::f32, Device::cuda());
  void* data = x.view().data;
  x = {};
  synchronize(Device::cuda());
  EXPECT_DEATH(static_cast<volatile float*>(data)[0] = 1, "use-after-poison");
}
#endif

}  // namespace
}  // namespace reprise
