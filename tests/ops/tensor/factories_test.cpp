// Making tensors.
#include <cmath>
#include <limits>

#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/tensor/from_memory.h"
#include "reprise/tests/support/compare.h"

namespace reprise {
namespace {

using testing::expect_error;
using testing::same_bits;

TEST(Factories, GiveTheValuesTheyName) {
  EXPECT_EQ(zeros({2}).to_vector<double>(), (std::vector<double>{0, 0}));
  EXPECT_EQ(ones({2}, DType::bf16).to_vector<double>(), (std::vector<double>{1, 1}));
  EXPECT_EQ(full({2}, 2.5, DType::f64).to_vector<double>(), (std::vector<double>{2.5, 2.5}));
  EXPECT_EQ(scalar(3).shape(), Shape{});
  EXPECT_EQ(arange(4).to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(arange(3, DType::f32).dtype(), DType::f32);
  EXPECT_EQ(zeros({0, 3}).numel(), 0);
}

TEST(Factories, GiveRanges) {
  EXPECT_EQ(arange(1, 2, 0.25).to_vector<double>(), (std::vector<double>{1, 1.25, 1.5, 1.75}));
  EXPECT_EQ(arange(5, 0, -2, DType::i64).to_vector<int64_t>(), (std::vector<int64_t>{5, 3, 1}));
  EXPECT_EQ(arange(3, 1, 1).numel(), 0);
  expect_error([] { arange(0, 1, 0); }, {"arange: from 0 to 1 by steps of 0"});
  EXPECT_EQ(linspace(-1, 1, 5).to_vector<double>(), (std::vector<double>{-1, -0.5, 0, 0.5, 1}));
  EXPECT_EQ(linspace(2, 7, 1).to_vector<double>(), std::vector<double>{2});
  EXPECT_EQ(linspace(2, 7, 0).numel(), 0);
  const std::vector<double> tenths = linspace(0.1, 0.7, 7, DType::f64).to_vector<double>();
  EXPECT_EQ(tenths.front(), 0.1);
  EXPECT_EQ(tenths.back(), 0.7);
  expect_error([] { linspace(0, 1, -1); }, {"linspace: count must be at least 0, got -1"});
  EXPECT_EQ(eye(2, 3).to_vector<double>(), (std::vector<double>{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(eye(0, 3, DType::i64).shape(), (Shape{0, 3}));
}

TEST(Factories, TakeShapeDtypeAndDeviceOfAnother) {
  const Tensor x = ones({2, 3}, DType::bf16);
  for (const Tensor& y : {zeros_like(x), ones_like(x), full_like(x, 2), rand_like(x), randn_like(x)}) {
    EXPECT_EQ(y.shape(), x.shape());
    EXPECT_EQ(y.dtype(), DType::bf16);
  }
  EXPECT_EQ(full_like(x, 2).to_vector<double>(), std::vector<double>(6, 2.0));
  manual_seed(4);
  const Tensor a = randn_like(x);
  manual_seed(4);
  EXPECT_TRUE(same_bits(a, randn({2, 3}, DType::bf16)));
}

TEST(Factories, TakeTheLeastIntegerAndRefuseWhatIsBeyond) {
  EXPECT_EQ(full({1}, -0x1p63, DType::i64).to_vector<int64_t>()[0], std::numeric_limits<int64_t>::min());
  EXPECT_EQ(full({1}, -0x1p31, DType::i32).to_vector<int32_t>()[0], std::numeric_limits<int32_t>::min());
  expect_error([] { full({1}, 0x1p63, DType::i64); }, {"full", "does not fit i64"});
  expect_error([] { full({1}, 0x1p31, DType::i32); }, {"full", "does not fit i32"});
  expect_error([] { full({1}, -1, DType::u8); }, {"full", "does not fit u8"});
  expect_error([] { full({1}, 256, DType::u8); }, {"full", "does not fit u8"});
}

TEST(Factories, OneHotMarksTheClassAndLeavesOthersZero) {
  Tensor y = one_hot(Tensor::from<int64_t>({2, 1, 0}, {3}), 3);
  EXPECT_EQ(y.to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 1, 0, 1, 0, 1, 0, 0}));
  EXPECT_EQ(one_hot(Tensor::from<int32_t>({1}, {}), 2, DType::boolean).dtype(), DType::boolean);
  EXPECT_EQ(one_hot(Tensor::from<int64_t>({}, {0}), 0).shape(), (Shape{0, 0}));
}

TEST(Factories, OneHotRefusesAnIndexOutsideWithItsValueAndPlace) {
  expect_error(
      [] {
        one_hot(Tensor::from<int64_t>({2, 0, 1, -100}, {2, 2}), 3);
      },
      {"one_hot", "-100", "(1, 1)", "[0, 3)"});
  expect_error([] { one_hot(Tensor::from<int64_t>({3}, {1}), 3); }, {"one_hot", "index 3", "(0,)"});
  expect_error([] { one_hot(Tensor::from<int64_t>({0}, {1}), 0); }, {"one_hot", "no classes"});
  expect_error([] { one_hot(Tensor::from<int64_t>({0}, {1}), -1); }, {"one_hot", "-1"});
  expect_error([] { one_hot(Tensor::from<float>({0.5f}, {1}), 3); }, {"one_hot", "f32"});
}

TEST(Factories, FromMemoryCopiesWithAnyStrides) {
  std::vector<int32_t> memory{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const Tensor rows = from_memory(memory.data(), DType::i32, {3, 4}),
               turned = from_memory(memory.data(), DType::i32, {4, 3}, {1, 4}),
               part = from_memory(memory.data() + 1, DType::i32, {3, 2}, {4, 1}),
               repeated = from_memory(memory.data() + 5, DType::i32, {2, 2}, {0, 1});
  memory.assign(memory.size(), -1);  // the copies are their own
  EXPECT_EQ(rows.to_vector<int32_t>(), (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_TRUE(same_bits(turned, rows.transpose(0, 1).contiguous()));
  EXPECT_EQ(part.to_vector<int32_t>(), (std::vector<int32_t>{1, 2, 5, 6, 9, 10}));
  EXPECT_EQ(repeated.to_vector<int32_t>(), (std::vector<int32_t>{5, 6, 5, 6}));
  EXPECT_EQ(from_memory(nullptr, DType::f64, {0, 3}).shape(), (Shape{0, 3}));
  const double number = 2.5;
  EXPECT_EQ(from_memory(&number, DType::f64, {}).item(), 2.5);
  expect_error([] { from_memory(nullptr, DType::f32, {2}); },
               {"from_memory: the pointer is null, for 2 elements"});
  expect_error([&] { from_memory(&number, DType::f64, {1}, {-1}); }, {"from_memory: a stride of -1"});
  expect_error([&] { from_memory(&number, DType::f64, {1, 1}, {1}); }, {"1 strides for 2 dimensions"});
  expect_error([&] { from_memory(&number, DType::f64, {-1}); }, {"from_memory"});
}

TEST(Factories, RandIsTheSameForTheSameSeedAndInRange) {
  Generator a(3), b(3);
  Tensor x = rand({1001}, DType::f32, {}, &a);
  EXPECT_TRUE(same_bits(x, rand({1001}, DType::f32, {}, &b)));
  EXPECT_FALSE(same_bits(x, rand({1001}, DType::f32, {}, &a)));
  for (double value : x.to_vector<double>()) {
    EXPECT_GE(value, 0);
    EXPECT_LT(value, 1);
  }
}

TEST(Factories, RandnHasMeanZeroAndVarianceOne) {
  manual_seed(4);
  Tensor x = randn({10000}, DType::f64);
  // Five standard errors: 1 / sqrt(n) of the mean, sqrt(2 / n) of the variance.
  EXPECT_NEAR(mean(x).item(), 0, 5 / std::sqrt(1e4));
  EXPECT_NEAR(variance(x).item(), 1, 5 * std::sqrt(2 / 1e4));
}

}  // namespace
}  // namespace reprise
