// GPUs that the emulator can stand for: one that is too old for the build's kernels, and one that they were not compiled for.
#include "reprise/core/cuda/emulated_queue.h"
#include "reprise/core/cuda/kernel_image.h"
#include "reprise/tests/core/cuda/cuda_test.h"

namespace reprise {
namespace {

class EmulatedDevice : public CudaTest {
 protected:
  void become(const std::string& name, int major, int minor) {
    memory().empty_cache();  // a block of an earlier test would be given without a look at the device
    cuda::DeviceProperties properties = before_;
    properties.name = name, properties.major = major, properties.minor = minor;
    cuda::emulated::set_properties(0, properties);
  }
  void TearDown() override {
    if (IsSkipped()) return;
    cuda::emulated::set_properties(0, before_);
    cuda::emulated::set_kernel_image(0, true);
  }
  const cuda::DeviceProperties before_ = cuda::properties(0);
};

TEST_F(EmulatedDevice, IsRefusedWhereItIsTooOldForTheKernels) {
  become("Tesla T4", 7, 5);
  const std::string want =
      "cuda:0 asked for, but Tesla T4 has compute capability 7.5, the kernels of this build need 8.0; it was "
      "built for ";
  EXPECT_NE(message_of([] { Device::parse("cuda"); }).find(want), std::string::npos)
      << message_of([] { Device::parse("cuda"); });
  EXPECT_NE(message_of([] { Tensor::empty({1}, DType::f32, Device::cuda()); }), "");
  EXPECT_EQ(Device::parse("best"), Device::cpu());
}

TEST_F(EmulatedDevice, IsRefusedWhereNoImageOfTheKernelsFits) {
  become("B200", 10, 0);
  cuda::emulated::set_kernel_image(0, false);
  const std::string want =
      "cuda:0 asked for, but B200 has compute capability 10.0, and this build holds no kernels that run on "
      "it; it was built for " +
      cuda::built_architectures();
  EXPECT_NE(message_of([] { Device::parse("cuda"); }).find(want), std::string::npos)
      << message_of([] { Device::parse("cuda"); });
  EXPECT_NE(message_of([] { Tensor::empty({1}, DType::f32, Device::cuda()); }).find(want), std::string::npos);
  EXPECT_EQ(Device::parse("best"), Device::cpu());
  cuda::emulated::set_kernel_image(0, true);
  EXPECT_EQ(Device::parse("cuda"), Device::cuda());
}

// A real runtime asks for the image of the kernel that a .cu names.
TEST_F(EmulatedDevice, AsksForTheImageOfAKernelOfTheBuild) {
  Tensor::empty({1}, DType::f32, Device::cuda()).fill_(1.0);  // kernels are linked
  EXPECT_NE(cuda::probe_kernel(), nullptr);
}

TEST_F(EmulatedDevice, IsTakenFromTheLeastCapabilityOn) {
  for (auto [major, minor] : {std::pair{8, 0}, {8, 6}, {9, 0}, {10, 0}, {12, 0}}) {
    become("GPU", major, minor);
    EXPECT_EQ(Device::parse("cuda"), Device::cuda());
  }
}

}  // namespace
}  // namespace reprise
