// Masks against C++'s own comparisons, element by element.
#include "reprise/autograd/ops/elementwise/conditions.h"

#include <cmath>
#include <functional>
#include <limits>

#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/index/indexing.h"
#include "reprise/tests/support/op_case.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;
using testing::test_device;

constexpr double inf = std::numeric_limits<double>::infinity();

void expect_mask(const Tensor& got, const std::vector<int64_t>& want) {
  EXPECT_EQ(got.dtype(), DType::boolean);
  EXPECT_EQ(got.to_vector<int64_t>(), want);
}

struct Comparison {
  const char* name;
  std::function<Tensor(const Tensor&, double)> right;
  std::function<Tensor(double, const Tensor&)> left;
  std::function<Tensor(const Tensor&, const Tensor&)> tensors;
  std::function<bool(double, double)> holds;
};

#define REPRISE_COMPARISON(op)                                                                             \
  {                                                                                                        \
#op, [](const Tensor& a, double b) { return a op b; }, [](double a, const Tensor& b) { return a op b; }, \
        [](const Tensor& a, const Tensor& b) { return a op b; }, [](double a, double b) { return a op b; } \
  }
const std::vector<Comparison> comparisons{REPRISE_COMPARISON(==), REPRISE_COMPARISON(!=),
                                          REPRISE_COMPARISON(<),  REPRISE_COMPARISON(<=),
                                          REPRISE_COMPARISON(>),  REPRISE_COMPARISON(>=)};
#undef REPRISE_COMPARISON

TEST(Comparisons, WithNumbersAreThoseOfTheNumbers) {
  const std::vector<double> values{-3, -1, 0, 1, 2, 3};
  const std::vector<double> numbers{-4, -3, -2.5, -0.5,  0,    0.5, 1,    2.5,
                                    3,  4,  300,  -1e30, 1e30, inf, -inf, NAN};
  for (DType dtype :
       {DType::f64, DType::f32, DType::bf16, DType::i64, DType::i32, DType::u8, DType::boolean}) {
    const Tensor x = (dtype == DType::u8 || dtype == DType::boolean ? abs(Tensor::from(values, {6})).to(dtype)
                                                                    : Tensor::from(values, {6}).to(dtype))
                         .to(test_device());
    const std::vector<double> of_x = x.to(DType::f64).to_vector<double>();
    for (const Comparison& c : comparisons)
      for (double number : numbers) {
        std::vector<int64_t> want, mirrored;
        for (double value : of_x)
          want.push_back(c.holds(value, number)), mirrored.push_back(c.holds(number, value));
        SCOPED_TRACE(detail::join(dtype, ' ', c.name, ' ', number));
        expect_mask(c.right(x, number), want);
        expect_mask(c.left(number, x), mirrored);
      }
  }
}

TEST(Comparisons, WithNumbersAreExactBesideIntegersThatF64Rounds) {
  const int64_t large = (int64_t(1) << 53) + 1;
  const Tensor x = Tensor::from<int64_t>({large - 1, large}, {2});
  expect_mask(x == 0x1p53, {1, 0});
  expect_mask(x > 0x1p53, {0, 1});
  expect_mask(Tensor::from<int64_t>({std::numeric_limits<int64_t>::min()}, {1}) == -0x1p63, {1});
}

TEST(Comparisons, WithNumbersRoundThemToAFloatingDtypeFirst) {
  expect_mask(Tensor::from<double>({0.1}, {1}).to(DType::f32) == 0.1, {1});
  expect_mask(Tensor::from<double>({0.1}, {1}).to(DType::bf16) >= 0.1, {1});
}

TEST(Comparisons, OfTensorsAreThoseOfTheNumbers) {
  const std::vector<double> a{0, 1, 2, NAN, inf, -0.0}, b{0, 2, 1, NAN, inf, 0.0};
  for (const Comparison& c : comparisons) {
    std::vector<int64_t> want;
    for (size_t i = 0; i < a.size(); ++i) want.push_back(c.holds(a[i], b[i]));
    SCOPED_TRACE(c.name);
    expect_mask(c.tensors(Tensor::from(a, {6}), Tensor::from(b, {6})), want);
  }
  EXPECT_EQ((zeros({3, 1}) < zeros({4})).shape(), (Shape{3, 4}));
  expect_error([] { (void)(Tensor() < 1); }, {"less", "undefined"});
}

TEST(Logic, TakesWhatIsNotZeroForTrue) {
  for (DType dtype : {DType::f32, DType::f16, DType::i64, DType::u8, DType::boolean}) {
    SCOPED_TRACE(dtype);
    const Tensor a = Tensor::from<int64_t>({0, 0, 2, 2}, {4}).to(dtype).to(test_device()),
                 b = Tensor::from<int64_t>({0, 3, 0, 3}, {4}).to(DType::i32).to(test_device());
    expect_mask(logical_and(a, b), {0, 0, 0, 1});
    expect_mask(logical_or(a, b), {0, 1, 1, 1});
    expect_mask(logical_xor(a, b), {0, 1, 1, 0});
    expect_mask(logical_not(a), {1, 1, 0, 0});
    const Tensor p = a.to(DType::boolean), q = b.to(DType::boolean);
    expect_mask(p & q, {0, 0, 0, 1});
    expect_mask(p | q, {0, 1, 1, 1});
    expect_mask(p ^ q, {0, 1, 1, 0});
    expect_mask(~p, {1, 1, 0, 0});
  }
  expect_mask(logical_not(Tensor::from<double>({NAN, -0.0}, {2})), {0, 1});
  EXPECT_EQ(logical_or(zeros({3, 1}), zeros({4})).shape(), (Shape{3, 4}));
  expect_error([] { zeros({1}) & zeros({1}); }, {"&: needs bool, got f32", "logical_and"});
  expect_error([] { ~zeros({1}, DType::i64); }, {"~: needs bool, got i64"});
}

TEST(Classes, OfFloatingNumbers) {
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    const Tensor x = Tensor::from<double>({0, -1, inf, -inf, NAN}, {5}).to(dtype);
    expect_mask(isnan(x), {0, 0, 0, 0, 1});
    expect_mask(isinf(x), {0, 0, 1, 1, 0});
    expect_mask(isfinite(x), {1, 1, 0, 0, 0});
  }
  expect_mask(isfinite(zeros({2}, DType::i64)), {1, 1});
  expect_mask(isinf(zeros({2}, DType::u8)), {0, 0});
}

TEST(AnyAndAll, ReduceTruth) {
  const Tensor x = Tensor::from<double>({0, 0, 0, 0, -2, 0, NAN, 1, 0.5}, {3, 3});
  expect_mask(any(x), {1});
  expect_mask(all(x), {0});
  expect_mask(any(x, {1}), {0, 1, 1});
  expect_mask(all(x, {1}), {0, 0, 1});
  EXPECT_EQ(any(x, {0}, true).shape(), (Shape{1, 3}));
  expect_mask(any(zeros({0, 2}), {0}), {0, 0});
  expect_mask(all(zeros({0, 2}), {0}), {1, 1});
  expect_mask(all(ones({300, 300}, DType::u8)), {1});  // more than u8 and f16 count to
  expect_mask(any(zeros({300, 300}, DType::f16)), {0});
}

// PyTorch's rule: |a - b| <= atol + rtol |b|; what is infinite is close to itself alone.
TEST(IsClose, HasPyTorchsRule) {
  constexpr double nan = NAN;
  const Tensor a = Tensor::from<double>({1, 1, 1, inf, inf, -inf, 1, nan, 1e-9}, {9}),
               b = Tensor::from<double>({1.000009, 1.00002, inf, inf, -inf, 1, nan, nan, 0}, {9});
  expect_mask(isclose(a, b), {1, 0, 0, 1, 0, 0, 0, 0, 1});
  expect_mask(isclose(a, b, {.atol = 0, .equal_nan = true}), {1, 0, 0, 1, 0, 0, 0, 1, 0});
  expect_mask(isclose(a, b, {.rtol = 1e-4}), {1, 1, 0, 1, 0, 0, 0, 0, 1});
  // Whole numbers that no f32 holds apart, and half types against f32.
  const Tensor large = Tensor::from<int64_t>({int64_t(1) << 40}, {1});
  EXPECT_FALSE(allclose(large, large + 1, {.rtol = 0, .atol = 0.5}));
  EXPECT_TRUE(allclose(large, large + 1));
  EXPECT_TRUE(allclose(full({2, 3}, 0.1, DType::f16), full({3}, 0.1), {.rtol = 1e-3}));
  EXPECT_TRUE(allclose(zeros({0}), zeros({0})));
  expect_error([&] { isclose(a, b, {.rtol = -1}); }, {"isclose: tolerances must be at least 0, got rtol -1"});
}

TEST(Nonzero, GivesPlacesInRowMajorOrder) {
  const Tensor x = Tensor::from<double>({0, 3, 0, 0, 0, -1}, {2, 3});
  const Tensor places = nonzero(x);
  EXPECT_EQ(places.shape(), (Shape{2, 2}));
  EXPECT_EQ(places.to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 1, 2}));
  EXPECT_EQ(nonzero(x.transpose(0, 1)).to_vector<int64_t>(), (std::vector<int64_t>{1, 0, 2, 1}));
  EXPECT_EQ(nonzero(zeros({2, 2})).shape(), (Shape{0, 2}));
  EXPECT_EQ(nonzero(scalar(2)).shape(), (Shape{1, 0}));
}

TEST(MaskedSelect, PassesEveryCheckOfAnOp) {
  const Tensor mask = Tensor::from<uint8_t>({0, 1, 1}, {3}).to(DType::boolean);
  check_op(OpCase{.name = "masked_select",
                  .inputs = {{{4, 3}}},
                  .fn = [=](const TensorList& in) { return masked_select(in[0], mask.to(in[0].device())); },
                  .reference =
                      [](const TensorList& in) {
                        const std::vector<double> x = in[0].to_vector<double>();
                        std::vector<double> y;
                        for (size_t i = 0; i < x.size(); ++i)
                          if (i % 3 > 0) y.push_back(x[i]);
                        return y;
                      },
                  .roundings = 0.5});
  expect_error([&] { masked_select(zeros({2}), mask); }, {"masked_select"});
  expect_error([&] { masked_select(zeros({3}), zeros({3})); }, {"masked_select: needs bool, got f32"});
}

}  // namespace
}  // namespace reprise
