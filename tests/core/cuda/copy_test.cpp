// Tensors on the device `cuda`: made from the host, read by the host, whatever their strides.
#include "reprise/core/cuda/pinned.h"
#include "reprise/core/transfer.h"
#include "reprise/tests/core/cuda/cuda_test.h"

namespace reprise {
namespace {

using CudaCopy = CudaTest;

TEST_F(CudaCopy, RoundTripsEveryValue) {
  std::vector<float> values(1000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = float(i) * 0.5f - 100;
  Tensor x = Tensor::from(values, {10, 100}, device);
  EXPECT_EQ(x.device(), device);
  EXPECT_EQ(x.to_vector<float>(), values);
  Tensor flags = Tensor::from<uint8_t>({1, 0, 7}, {3}, device);
  EXPECT_EQ(flags.to_vector<int64_t>(), (std::vector<int64_t>{1, 0, 7}));
}

TEST_F(CudaCopy, ReadsTheSourceBeforeTheCallReturns) {
  std::vector<int64_t> values{1, 2, 3};
  Tensor x = Tensor::from(values, {3}, device);
  values.assign(3, -1);
  EXPECT_EQ(x.to_vector<int64_t>(), (std::vector<int64_t>{1, 2, 3}));
}

TEST_F(CudaCopy, MakesZerosEvenInMemoryThatHeldOtherNumbers) {
  { Tensor::from(std::vector<float>(64, 3.0f), {64}, device); }
  EXPECT_EQ(Tensor::zeros({64}, DType::f32, device).to_vector<float>(), std::vector<float>(64, 0.0f));
}

TEST_F(CudaCopy, ReadsViews) {
  Tensor x = Tensor::from<int32_t>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {3, 4}, device);
  auto read = [&](const TensorView& view) { return x.alias(view).to_vector<int32_t>(); };
  EXPECT_EQ(read(transpose(x.view(), 0, 1)), (std::vector<int32_t>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
  EXPECT_EQ(read(slice(x.view(), 1, 1, 4, 2)), (std::vector<int32_t>{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(read(select(x.view(), 1, 3)), (std::vector<int32_t>{3, 7, 11}));
  EXPECT_EQ(read(expand(slice(x.view(), 0, 2, 3), {2, 4})),
            (std::vector<int32_t>{8, 9, 10, 11, 8, 9, 10, 11}));
  EXPECT_EQ(x.alias(select(select(x.view(), 0, 2), 0, 1)).item(), 9);
}

TEST_F(CudaCopy, HoldsEmptyTensorsAndScalars) {
  EXPECT_TRUE(Tensor::zeros({0, 3}, DType::f32, device).to_vector<float>().empty());
  EXPECT_EQ(Tensor::from<double>({2.5}, {}, device).item(), 2.5);
}

TEST_F(CudaCopy, KeepsHostCodeFromDeviceMemory) {
  Tensor x = Tensor::zeros({4}, DType::f32, device);
  std::string text = message_of([&] { x.data<float>(); });
  EXPECT_NE(text.find("cuda:0"), std::string::npos) << text;
  EXPECT_NE(text.find("to(Device::cpu())"), std::string::npos) << text;
}

TEST_F(CudaCopy, MovesBytesBetweenAllDevices) {
  Tensor host = Tensor::from<int64_t>({5, 6, 7}, {3});
  Tensor first = Tensor::empty({3}, DType::i64, device), second = Tensor::empty({3}, DType::i64, device);
  copy_bytes(host, first);
  copy_bytes(first, second);
  Tensor back = Tensor::zeros({3}, DType::i64);
  copy_bytes(second, back);
  EXPECT_EQ(back.to_vector<int64_t>(), host.to_vector<int64_t>());
  EXPECT_NE(message_of([&] { copy_bytes(host, Tensor::empty({3}, DType::f32, device).view()); }), "");
  EXPECT_NE(message_of([&] { copy_bytes(host, Tensor::empty({2}, DType::i64, device).view()); }), "");
}

TEST_F(CudaCopy, LetsPinnedMemoryTravelInTheBackground) {
  cuda::PinnedBuffer there(3 * sizeof(float)), back(3 * sizeof(float));
  Stream stream = current_stream(device);
  Tensor x = Tensor::empty({3}, DType::f32, device);
  for (int i = 0; i < 3; ++i) there.as<float>()[size_t(i)] = float(i) + 0.5f;
  cuda::copy_async(x.view().data, there.data(), there.bytes(), stream.handle());
  cuda::copy_async(back.data(), x.view().data, back.bytes(), stream.handle());
  synchronize(stream);
  EXPECT_EQ(back.as<float>()[2], 2.5f);
  cuda::PinnedBuffer moved = std::move(back);
  EXPECT_EQ(back.data(), nullptr);
  EXPECT_EQ(moved.as<float>()[1], 1.5f);
}

TEST(PinnedBuffer, IsPlainMemoryWhereThereIsNoDevice) {
  cuda::PinnedBuffer buffer(100);
  EXPECT_EQ(buffer.as<int64_t>().size(), 12u);
  buffer.as<int64_t>()[11] = 3;
  EXPECT_EQ(cuda::PinnedBuffer(0).data(), nullptr);
}

}  // namespace
}  // namespace reprise
