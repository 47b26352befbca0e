// What a division leaves, against floor and trunc in f64 and what PyTorch 2.15 answers.
#include "reprise/autograd/ops/elementwise/remainder.h"

#include <cmath>
#include <limits>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;
using testing::OpFunction;
using testing::test_device;
using Doubles = std::vector<double>;

// Divisors and what they divide lie away from where the quotient steps, as gradcheck asks: |a / b| has a fraction in (0.1, 0.9).
Tensor dividends(const Shape& shape) {
  Doubles values;
  for (int64_t i = 0; i < numel_of(shape); ++i)
    values.push_back((double(i * 7 % 5) + 0.25 + 0.125 * double(i % 4)) * (i % 3 ? 1 : -1));
  return Tensor::from(values, shape);
}

void check_rest(const char* name, const OpFunction& fn, double (*of)(double, double), const Shape& divisors) {
  const Tensor a = dividends({4, 3});
  Doubles b;
  for (int64_t i = 0; i < numel_of(divisors); ++i) b.push_back(i % 2 ? -1.0 : 2.0);
  const Tensor divisor = Tensor::from(b, divisors);
  check_op(OpCase{.name = name,
                  .inputs = {{.shape = {4, 3}, .low = 0.1, .high = 0.9},
                             {.shape = {4, 3}, .values = a},
                             {.shape = divisors, .low = 0.95, .high = 1.05},
                             {.shape = divisors, .values = divisor}},
                  .fn = fn,
                  .reference =
                      [=](const TensorList& in) {
                        Doubles x = in[0].to_vector<double>(), whole = in[1].to_vector<double>();
                        const Doubles y = in[2].to_vector<double>(), sign = in[3].to_vector<double>();
                        for (size_t i = 0; i < x.size(); ++i) {
                          const size_t j = y.size() == 3 ? i % 3 : i;
                          x[i] = of(x[i] * 0.01 + whole[i], y[j] * sign[j]);
                        }
                        return x;
                      },
                  .roundings = 64});
}

TEST(Remainder, PassesEveryCheckOfAnOp) {
  for (const Shape& divisors : {Shape{4, 3}, Shape{3}}) {
    check_rest(
        "remainder",
        [](const TensorList& in) {
          return remainder(in[0] * 0.01 + in[1].to(in[0].dtype()), in[2] * in[3].to(in[0].dtype()));
        },
        [](double a, double b) { return a - b * std::floor(a / b); }, divisors);
    check_rest(
        "fmod",
        [](const TensorList& in) {
          return fmod(in[0] * 0.01 + in[1].to(in[0].dtype()), in[2] * in[3].to(in[0].dtype()));
        },
        [](double a, double b) { return a - b * std::trunc(a / b); }, divisors);
  }
}

TEST(Remainder, AnswersAsPyTorchAtZeroInfinityAndNan) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(),
                   inf = std::numeric_limits<double>::infinity();
  const Doubles a{5.5, -5.5, 5.5, -5.5, 6, -6, inf, nan, 1, -1, 1, 3, -7};
  const Doubles b{2, 2, -2, -2, 3, 3, 2, 2, inf, inf, 0, nan, -inf};
  const Doubles remainders{1.5, 0.5, -0.5, -1.5, 0, 0, nan, nan, 1, inf, nan, nan, -7};
  const Doubles of_divisors{-2, 3, 3, -2, -2, 2, nan, nan, 0, 1, -inf, nan, 0};
  const Doubles fmods{1.5, -1.5, 1.5, -1.5, 0, 0, nan, nan, 1, -1, nan, nan, -7};
  const Doubles of_fmod{-2, 2, 2, -2, -2, 2, -inf, nan, 0, 0, -inf, nan, 0};
  const auto count = int64_t(a.size());
  const Tensor x = Tensor::from(a, {count}).to(DType::f32).to(test_device()).detach().set_requires_grad();
  const Tensor y = Tensor::from(b, {count}).to(DType::f32).to(test_device()).detach().set_requires_grad();
  auto expect_same = [](const Tensor& got, const Doubles& want, const char* what) {
    const Doubles values = got.to_vector<double>();
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_TRUE(values[i] == want[i] || (std::isnan(values[i]) && std::isnan(want[i])))
          << what << " " << i << ": " << values[i] << ", not " << want[i];
  };
  for (bool floors : {true, false}) {
    const Tensor z = floors ? x % y : fmod(x, y);
    expect_same(z, floors ? remainders : fmods, "value");
    const TensorList g = grad({sum(z)}, {x, y});
    expect_same(g[0], Doubles(a.size(), 1), "gradient of the dividend");
    expect_same(g[1], floors ? of_divisors : of_fmod, "gradient of the divisor");
  }
}

TEST(Remainder, TakesNumbersAndIntegers) {
  auto whole = [](const std::vector<int64_t>& values) {
    return Tensor::from(values, {int64_t(values.size())}).to(test_device());
  };
  constexpr int64_t least = std::numeric_limits<int64_t>::min();
  const Tensor a = whole({7, -7, 7, -7, 6, least}), b = whole({3, 3, -3, -3, 3, -1});
  EXPECT_EQ((a % b).to_vector<int64_t>(), (std::vector<int64_t>{1, 2, -2, -1, 0, 0}));
  EXPECT_EQ(fmod(a, b).to_vector<int64_t>(), (std::vector<int64_t>{1, -1, 1, -1, 0, 0}));
  EXPECT_EQ((a % 4).to_vector<int64_t>(), (std::vector<int64_t>{3, 1, 3, 1, 2, 0}));
  EXPECT_EQ(fmod(a, -4).to_vector<int64_t>(), (std::vector<int64_t>{3, -3, 3, -3, 2, 0}));
  EXPECT_EQ((-8 % b).to_vector<int64_t>(), (std::vector<int64_t>{1, 1, -2, -2, 1, 0}));
  const Tensor x = full({2}, -0.75, DType::f16, test_device());
  EXPECT_EQ((x % 0.5).to_vector<double>(), (Doubles{0.25, 0.25}));
  EXPECT_EQ((x % 0.5).dtype(), DType::f16);
  expect_error([&] { a % whole({3, 3, 0, 1, 1, 1}); }, "remainder: division of integers by 0");
  expect_error([&] { fmod(a, 0); }, "fmod: division of integers by 0");
  expect_error([&] { a % 0.5; }, "remainder: 0.5 is not a whole number");
  expect_error([&] { equal(a, a) % equal(a, a); }, "remainder: needs numbers, got bool");
  expect_error([&] { x % Tensor(); }, "remainder: tensor argument 1 is undefined");
}

}  // namespace
}  // namespace reprise
