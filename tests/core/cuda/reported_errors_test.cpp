// What kernels report comes out where the host next waits: once, and the device goes on.
#include "reprise/core/cuda/error_slot.h"
#include "reprise/core/cuda/graph.h"
#include "reprise/tests/core/cuda/cuda_test.h"
#include "reprise/tests/core/cuda/report_kernels.h"

namespace reprise {
namespace {

class DeviceErrors : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    table = Tensor::from<float>({10, 11, 12}, {3}, device);
    y = Tensor::zeros({130}, DType::f32, device);
  }
  void look_up_with(int64_t at, int64_t value) {
    std::vector<int64_t> indices(130, 1);
    indices[size_t(at)] = value;
    look_up(current_stream(device), table, Tensor::from(indices, {130}, device).view(), y);
  }

  Tensor table, y;
};

TEST_F(DeviceErrors, AreSilentWhereAllIsWell) {
  look_up_with(0, 2);
  EXPECT_EQ(y.to_vector<float>()[0], 12);
  EXPECT_EQ(y.to_vector<float>()[129], 11);
  synchronize(device);
}

TEST_F(DeviceErrors, AreThrownByEveryWait) {
  const std::string want = "look_up: index 3 in row 77 is outside [0, 3)";
  look_up_with(77, 3);
  EXPECT_EQ(message_of([&] { synchronize(device); }), want);
  look_up_with(77, 3);
  EXPECT_EQ(message_of([&] { synchronize(current_stream(device)); }), want);
  look_up_with(77, 3);
  EXPECT_EQ(message_of([&] { y.to_vector<float>(); }), want);
  look_up_with(77, 3);
  EXPECT_EQ(message_of([&] { y.alias(slice(y.view(), 0, 0, 1)).item(); }), want);
}

TEST_F(DeviceErrors, AreThrownOnceAndLeaveTheDeviceUsable) {
  look_up_with(5, -4);
  EXPECT_EQ(message_of([&] { synchronize(device); }), "look_up: index -4 in row 5 is outside [0, 3)");
  synchronize(device);
  look_up_with(0, 0);
  EXPECT_EQ(y.to_vector<float>()[0], 10);
}

TEST_F(DeviceErrors, KeepTheFirstOfSeveral) {
  look_up_with(1, 100);
  synchronize(Device::cpu());  // is not concerned
  look_up_with(2, 200);
  std::string text = message_of([&] { synchronize(device); });
  EXPECT_EQ(text, "look_up: index 100 in row 1 is outside [0, 3)");
  synchronize(device);
}

TEST_F(DeviceErrors, ComeOutOfGraphs) {
  Tensor index = Tensor::from<int64_t>({0, 1}, {2}, device), out = Tensor::zeros({2}, DType::f32, device);
  cuda::Graph graph(current_stream(device), [&] { look_up(current_stream(device), table, index, out); });
  graph.launch();
  EXPECT_EQ(out.to_vector<float>(), (std::vector<float>{10, 11}));
  cuda::set_bytes_async(index.view().data, 0xff, 8, current_stream(device).handle());  // -1
  graph.launch();
  EXPECT_EQ(message_of([&] { out.to_vector<float>(); }), "look_up: index -1 in row 0 is outside [0, 3)");
}

TEST_F(DeviceErrors, HaveNoSlotOnTheCpu) {
  EXPECT_NE(message_of([] { cuda::error_slot(Device::cpu()); }), "");
}

}  // namespace
}  // namespace reprise
