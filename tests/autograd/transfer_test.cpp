// Tensors that move between devices: their gradients, in-place copies, and refusals to mix devices.
#include <gtest/gtest.h>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/core/cuda/runtime.h"
#include "reprise/tests/support/errors.h"

namespace reprise {
namespace {

using testing::expect_error;

class Transfer : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Device::cuda_count() == 0) GTEST_SKIP() << cuda::unavailable_reason();
  }
  const Device device = Device::cuda();
  const std::vector<double> values{1, 2, 3, 4, 5, 6};
  const Tensor matrix = Tensor::from(values, {2, 3});
};

TEST(TransferOnOneDevice, IsTheTensorItself) {
  Tensor x = Tensor::from<float>({1, 2}, {2});
  EXPECT_TRUE(x.to(Device::cpu()).is_same(x));
}

TEST_F(Transfer, CopiesThereAndBack) {
  Tensor there = matrix.to(device);
  EXPECT_EQ(there.device(), device);
  EXPECT_EQ(there.to(Device::cpu()).to_vector<double>(), values);
  EXPECT_TRUE(there.to(device).is_same(there));
  matrix.fill_(0);
  EXPECT_EQ(there.to_vector<double>(), values);  // nothing is shared
}

TEST_F(Transfer, CopiesGradientsBack) {
  Tensor x = matrix.clone().set_requires_grad();
  Tensor y = x.to(device);
  EXPECT_TRUE(y.requires_grad());
  y.backward(Tensor::from(values, {2, 3}, device));
  EXPECT_EQ(x.grad().device(), Device::cpu());
  EXPECT_EQ(x.grad().to_vector<double>(), values);
  x.to(device).to(Device::cpu()).backward(matrix);
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{2, 4, 6, 8, 10, 12}));
}

TEST_F(Transfer, MovesViewsOfAnyStrides) {
  EXPECT_EQ(matrix.transpose(0, 1).to(device).to_vector<double>(), (std::vector<double>{1, 4, 2, 5, 3, 6}));
  Tensor there = matrix.to(device);
  EXPECT_EQ(there.slice(1, 0, 3, 2).to(Device::cpu()).to_vector<double>(), (std::vector<double>{1, 3, 4, 6}));
  EXPECT_EQ(there.select(0, 1).expand({2, 3}).to(Device::cpu()).to_vector<double>(),
            (std::vector<double>{4, 5, 6, 4, 5, 6}));
  EXPECT_EQ(Tensor::zeros({0, 3}).to(device).shape(), (Shape{0, 3}));
}

TEST_F(Transfer, CopiesInPlaceAcrossDevicesCastingAndBroadcasting) {
  Tensor there = Tensor::zeros({2, 3}, DType::f32, device), here = Tensor::zeros({2, 3});
  there.copy_(matrix);
  EXPECT_EQ(there.to_vector<double>(), values);
  here.copy_(there);
  EXPECT_EQ(here.to_vector<double>(), values);
  there.copy_(Tensor::from<int64_t>({7, 8, 9}, {3}));
  EXPECT_EQ(there.to_vector<double>(), (std::vector<double>{7, 8, 9, 7, 8, 9}));
  there.slice(1, 0, 2).copy_(Tensor::from<double>({-1}, {}));
  EXPECT_EQ(there.to_vector<double>(), (std::vector<double>{-1, -1, 9, -1, -1, 9}));
  here.transpose(0, 1).copy_(there.transpose(0, 1));
  EXPECT_EQ(here.to_vector<double>(), there.to_vector<double>());
  uint64_t version = there.version();
  there.copy_(matrix);
  EXPECT_GT(there.version(), version);
}

TEST_F(Transfer, RunsAGraphThatCrossesDevices) {
  Tensor x = matrix.clone().set_requires_grad(), w = matrix.to(device).set_requires_grad();
  Tensor loss = (x.to(device) * w).to(Device::cpu()).sum() + x.sum();
  EXPECT_EQ(loss.item(), 91 + 21);
  loss.backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(w.grad().device(), device);
  EXPECT_EQ(w.grad().to_vector<double>(), values);
}

TEST_F(Transfer, RefusesToMixDevices) {
  Tensor there = matrix.to(device);
  expect_error([&] { matrix + there; }, "add: tensors on ");
  expect_error([&] { there.matmul(matrix.transpose(0, 1)); }, "matmul: tensors on ");
  expect_error([&] { there.add_(matrix); }, "add_: tensors on cuda:0 and cpu");
  expect_error([&] { concat({there, matrix}, 0); }, "concat: tensors on ");
  expect_error([&] { there.set_grad(matrix); }, "set_grad: the gradient is on cpu");
  expect_error([&] { there.clone().set_requires_grad().backward(matrix); }, "backward: gradient 0 is on cpu");
  expect_error([&] { cross_entropy(there, Tensor::from<int64_t>({0, 1}, {2})); }, "cross_entropy: runs on ");
}

TEST_F(Transfer, ComputesOnTheDeviceWhatTheCpuComputes) {
  Tensor there = matrix.to(device);
  EXPECT_EQ((there * 2.0 + there).to_vector<double>(), (matrix * 2.0 + matrix).to_vector<double>());
  EXPECT_EQ(there.sum().item(), 21);
  EXPECT_EQ(there.matmul(there.transpose(0, 1)).to_vector<double>(), (std::vector<double>{14, 32, 32, 77}));
  manual_seed(3);
  std::vector<double> here = rand({100}, DType::f64).to_vector<double>();
  manual_seed(3);
  EXPECT_EQ(rand({100}, DType::f64, device).to_vector<double>(), here);
}

}  // namespace
}  // namespace reprise
