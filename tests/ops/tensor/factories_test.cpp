// Making tensors.
#include "reprise/autograd/ops/tensor/factories.h"

#include <cmath>
#include <limits>

#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/index/along_dim.h"
#include "reprise/autograd/ops/index/indexing.h"
#include "reprise/autograd/ops/tensor/from_memory.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::expect_error;
using testing::same_bits;
using testing::test_device;

TEST(Factories, GiveTheValuesTheyName) {
  EXPECT_EQ(zeros({2}).to_vector<double>(), (std::vector<double>{0, 0}));
  EXPECT_EQ(ones({2}, DType::bf16).to_vector<double>(), (std::vector<double>{1, 1}));
  EXPECT_EQ(full({2}, 2.5, DType::f64).to_vector<double>(), (std::vector<double>{2.5, 2.5}));
  EXPECT_EQ(scalar(3).shape(), Shape{});
  EXPECT_EQ(arange(4).to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(arange(3, DType::f32).dtype(), DType::f32);
  EXPECT_EQ(zeros({0, 3}).numel(), 0);
}

// The values, dtypes and shapes that torch.tensor gives of the same lists.
TEST(Factories, TakeNestedNumbers) {
  auto is = [](const Tensor& y, DType dtype, const Shape& shape, const std::vector<double>& values) {
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(y.shape(), shape);
    EXPECT_EQ(y.to_vector<double>(), values);
  };
  is(tensor({{1., 2.}, {3., 4.}}), DType::f32, {2, 2}, {1, 2, 3, 4});
  is(tensor({1, 2, 3}), DType::i64, {3}, {1, 2, 3});
  is(tensor({true, false}), DType::boolean, {2}, {1, 0});
  is(tensor({1, 2.5f, 3u}), DType::f32, {3}, {1, 2.5, 3});
  is(tensor({true, 7}), DType::i64, {2}, {1, 7});
  is(tensor(3.5), DType::f32, {}, {3.5});
  is(tensor(3), DType::i64, {}, {3});
  is(tensor({}), DType::f32, {0}, {});
  is(tensor({{}, {}}), DType::f32, {2, 0}, {});
  is(tensor({{1.}}), DType::f32, {1, 1}, {1});
  is(tensor({{1, 2, 3}}), DType::i64, {1, 3}, {1, 2, 3});
  is(tensor({{{1}, {2}}, {{3}, {4}}, {{5}, {6}}}), DType::i64, {3, 2, 1}, {1, 2, 3, 4, 5, 6});
  is(tensor({1, 2}, DType::bf16, test_device()), DType::bf16, {2}, {1, 2});
  is(tensor({0., 2.}, DType::boolean), DType::boolean, {2}, {0, 1});
  is(tensor({{1., -2.}}, DType::i32), DType::i32, {1, 2}, {1, -2});
  const double third = 1. / 3;
  EXPECT_EQ(tensor({third}, DType::f64).to_vector<double>()[0], third);
  EXPECT_EQ(tensor({third}).to_vector<float>()[0], float(third));
  constexpr int64_t most = std::numeric_limits<int64_t>::max(), least = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(tensor({most, least}).to_vector<int64_t>(), (std::vector<int64_t>{most, least}));
  expect_error([] { tensor({{1, 2}, {3}}); }, {"tensor: what stands side by side has shapes (2,) and (1,)"});
  expect_error([] { tensor({{1, 2}, 3}); }, {"tensor: what stands side by side has shapes (2,) and ()"});
  expect_error([] { tensor({1.5}, DType::i64); }, {"tensor: 1.5 is not a whole number"});
  expect_error([] { tensor({256}, DType::u8); }, {"tensor: 256 does not fit u8"});
  expect_error([] { tensor({uint64_t(1) << 63}); }, {"tensor: 9223372036854775808 does not fit i64"});
}

TEST(Factories, GiveMemoryThatIsNotInitialised) {
  const Tensor y = empty({2, 3}, DType::bf16, test_device());
  EXPECT_EQ(y.shape(), (Shape{2, 3}));
  EXPECT_EQ(y.dtype(), DType::bf16);
  EXPECT_EQ(y.device(), test_device());
  EXPECT_EQ(empty({}).dtype(), DType::f32);
  expect_error([] { empty({-1}); }, {"negative size"});
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

TEST(Factories, GiveRangesFromOneNumberToAnother) {
  auto expect = [](const Tensor& y, DType dtype, const std::vector<double>& values) {
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(y.to_vector<double>(), values);
  };
  expect(arange(2, 5), DType::i64, {2, 3, 4});
  expect(arange(int64_t(-2), 1u), DType::i64, {-2, -1, 0});
  expect(arange(2, 5, DType::f32, test_device()), DType::f32, {2, 3, 4});
  expect(arange(5, 2), DType::i64, {});
  expect(arange(0, 5, 2), DType::i64, {0, 2, 4});
  expect(arange(0, 6, 2), DType::i64, {0, 2, 4});
  expect(arange(3, -2, -2, DType::f64), DType::f64, {3, 1, -1});
  expect(arange(0.5, 3.0), DType::f32, {0.5, 1.5, 2.5});
  expect(arange(0, 2.5), DType::f32, {0, 1, 2});
  expect(arange(0.5, 2), DType::f32, {0.5, 1.5});
  expect(arange(0.5f, 2, DType::f64), DType::f64, {0.5, 1.5});
  expect(arange(2.5), DType::f32, {0, 1, 2});
  expect(arange(3), DType::i64, {0, 1, 2});
  constexpr int64_t most = std::numeric_limits<int64_t>::max(), least = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(arange(most - 2, most, DType::i64, test_device()).to_vector<int64_t>(),
            (std::vector<int64_t>{most - 2, most - 1}));
  EXPECT_EQ(arange(most, least, least).to_vector<int64_t>(), (std::vector<int64_t>{most, -1}));
  EXPECT_EQ(arange(least, most, most).to_vector<int64_t>(), (std::vector<int64_t>{least, -1, most - 1}));
  expect_error([] { arange(2, 3, 0); }, {"arange: from 2 to 3 by steps of 0"});
  expect_error([] { arange(least, most); }, {"arange: from -9223372036854775808"});
  expect_error([] { arange(0.0, 1e30); }, {"arange: from 0 to 1e+30"});
  expect_error([] { arange(uint64_t(1) << 63, 3); }, {"arange: 9223372036854775808 does not fit i64"});
}

TEST(Factories, GiveTheUnitMatrix) {
  EXPECT_EQ(eye(2).to_vector<double>(), (std::vector<double>{1, 0, 0, 1}));
  EXPECT_EQ(eye(3, DType::i64, test_device()).dtype(), DType::i64);
  EXPECT_EQ(eye(0).shape(), (Shape{0, 0}));
}

TEST(Factories, TakeShapeAndDeviceOfAnotherInADtypeOfTheirOwn) {
  const Tensor x = arange(6, DType::i64, test_device()).reshape({2, 3}).transpose(0, 1);
  for (const Tensor& y :
       {empty_like(x, DType::f32), zeros_like(x, DType::f32), ones_like(x, DType::f32),
        full_like(x, 0.5, DType::f32), rand_like(x, DType::f32), randn_like(x, DType::f32)}) {
    EXPECT_EQ(y.shape(), x.shape());
    EXPECT_EQ(y.dtype(), DType::f32);
    EXPECT_EQ(y.device(), x.device());
    EXPECT_TRUE(y.is_contiguous());
  }
  EXPECT_EQ(empty_like(x).dtype(), DType::i64);
  EXPECT_EQ(ones_like(x, DType::f64).to_vector<double>(), std::vector<double>(6, 1));
  EXPECT_EQ(full_like(x, 0.5, DType::f32).to_vector<double>(), std::vector<double>(6, 0.5));
  Generator a(3), b(3);
  EXPECT_TRUE(same_bits(randn_like(x, DType::f64, &a), randn(x.shape(), DType::f64, x.device(), &b)));
  expect_error([&] { full_like(x, 0.5); }, {"full", "0.5"});
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

// As PyTorch: true for all but 0, a fraction and NaN among them; stored as 1, so that sums count them.
TEST(Factories, OfBoolAnyNumberButZeroIsTrue) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor one = Tensor::from<int64_t>({1}, {1}).to(test_device());
  for (double value : {0.0, -0.0, 1.0, 2.0, 0.25, -3.0, 256.0, 1e300, nan}) {
    const bool want = value != 0;
    auto blank = [&] { return full({2, 3}, !want, DType::boolean, test_device()); };
    auto expect_row = [&](const char* op, const Tensor& x, int64_t row) {
      EXPECT_TRUE(
          same_bits(select(x, 0, row).clone(), (want ? ones : zeros)({3}, DType::boolean, test_device())))
          << op << ' ' << value;
      EXPECT_EQ(sum(select(x, 0, row)).item(), want ? 3 : 0) << op << ' ' << value;
    };
    auto expect_other = [&](const char* op, const Tensor& x, int64_t row) {
      EXPECT_EQ(sum(select(x, 0, row)).item(), want ? 0 : 3) << op << ' ' << value;
    };
    const Tensor filled = blank();
    filled.select(0, 1).fill_(value);
    expect_row("fill_", filled, 1), expect_other("fill_", filled, 0);
    expect_row("full", full({2, 3}, value, DType::boolean, test_device()), 0);
    const Tensor put = blank();
    put[1] = value;
    expect_row("index_put_", put, 1), expect_other("index_put_", put, 0);
    expect_row("index_fill", index_fill(blank(), 0, one, value), 1);
    const Tensor masked = blank();
    masked.masked_fill_(Tensor::from<uint8_t>({0, 1}, {2, 1}).to(DType::boolean).to(test_device()), value);
    expect_row("masked_fill_", masked, 1), expect_other("masked_fill_", masked, 0);
  }
}

}  // namespace
}  // namespace reprise
