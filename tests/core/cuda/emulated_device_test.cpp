// GPUs that the emulator can stand for: one that is too old for the build's kernels.
#include "reprise/core/cuda/emulated_queue.h"
#include "reprise/tests/core/cuda/cuda_test.h"

namespace reprise {
namespace {

class EmulatedDevice : public CudaTest {
 protected:
  void become(const std::string& name, int major, int minor) {
    cuda::DeviceProperties properties = before_;
    properties.name = name, properties.major = major, properties.minor = minor;
    cuda::emulated::set_properties(0, properties);
  }
  void TearDown() override {
    if (!IsSkipped()) cuda::emulated::set_properties(0, before_);
  }
  const cuda::DeviceProperties before_ = cuda::properties(0);
};

TEST_F(EmulatedDevice, IsRefusedWhereItIsTooOldForTheKernels) {
  become("Tesla T4", 7, 5);
  const std::string want =
      "cuda:0 asked for, but Tesla T4 has compute capability 7.5, the kernels of this build need 8.0";
  EXPECT_NE(message_of([] { Device::parse("cuda"); }).find(want), std::string::npos)
      << message_of([] { Device::parse("cuda"); });
  EXPECT_NE(message_of([] { Tensor::empty({1}, DType::f32, Device::cuda()); }), "");
  EXPECT_EQ(Device::parse("best"), Device::cpu());
}

TEST_F(EmulatedDevice, IsTakenFromTheLeastCapabilityOn) {
  for (auto [major, minor] : {std::pair{8, 0}, {8, 6}, {9, 0}, {10, 0}, {12, 0}}) {
    become("GPU", major, minor);
    EXPECT_EQ(Device::parse("cuda"), Device::cuda());
  }
}

}  // namespace
}  // namespace reprise
