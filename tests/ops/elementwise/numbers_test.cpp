// Numbers where tensors stand: values against loops, the dtype of the tensor beside them, and what they refuse.
#include "reprise/autograd/ops/elementwise/numbers.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/autograd/ops/elementwise/remainder.h"
#include "reprise/autograd/ops/index/indexing.h"
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
using Longs = std::vector<int64_t>;

Tensor longs(const Longs& values) { return Tensor::from(values, {int64_t(values.size())}).to(test_device()); }

// (3, 5), of which every third number is kept or set.
Tensor mask_on(Device device) { return equal(arange(15, DType::i64, device) % 3, 0).reshape({3, 5}); }

TEST(Numbers, PassEveryCheckOfAnOp) {
  struct Case {
    const char* name;
    OpFunction fn;
    double (*of)(double x, bool chosen);
  };
  auto chosen = [](const TensorList& in) { return mask_on(in[0].device()); };
  for (const Case& c : {
           Case{"where x else number", [=](const TensorList&in) { return where(chosen(in), in[0], 0.25); },
                [](double x, bool mask) { return mask ? x : 0.25; }},
           Case{"where number else x", [=](const TensorList&in) { return where(chosen(in), -0.5, in[0]); },
                [](double x, bool mask) { return mask ? -0.5 : x; }},
           Case{"where of numbers",
                [=](const TensorList&in) { return in[0] * where(chosen(in), 2.0, -1.0).to(in[0].dtype()); },
                [](double x, bool mask) { return mask ? 2 * x : -x; }},
           Case{"maximum", [](const TensorList&in) { return maximum(in[0], 0.3125); },
                [](double x, bool) { return std::max(x, 0.3125); }},
           Case{"maximum of a number", [](const TensorList&in) { return maximum(-0.3125, in[0]); },
                [](double x, bool) { return std::max(x, -0.3125); }},
           Case{"minimum", [](const TensorList&in) { return minimum(in[0], 0.3125); },
                [](double x, bool) { return std::min(x, 0.3125); }},
           Case{"minimum of a number", [](const TensorList&in) { return minimum(-0.3125, in[0]); },
                [](double x, bool) { return std::min(x, -0.3125); }},
           Case{"masked_fill by a number of x",
                [=](const TensorList&in) {
                  return masked_fill(in[0], chosen(in), in[0][{Slice(0, 1), Slice(1, 2)}]);
                },
                nullptr},
       })
    check_op(OpCase{.name = c.name,
                    .inputs = {{{3, 5}}},
                    .fn = c.fn,
                    .reference =
                        [of = c.of](const TensorList& in) {
                          Doubles values = in[0].to_vector<double>();
                          const double second = values[1];
                          for (size_t i = 0; i < values.size(); ++i)
                            values[i] = of ? of(values[i], i % 3 == 0) : i % 3 == 0 ? second : values[i];
                          return values;
                        },
                    .roundings = 16});
}

// 5 over divisors of (0.86, 0.97) lies between two whole numbers: no quotient steps.
TEST(Numbers, DivideAndLeaveARest) {
  for (double sign : {1.0, -1.0})
    for (bool floors : {true, false})
      check_op(OpCase{.name = detail::join(floors ? "remainder" : "fmod", " of ", sign * 5),
                      .inputs = {{{3, 5}, 0.86, 0.97}},
                      .fn =
                          [=](const TensorList& in) {
                            return floors ? remainder(sign * 5, in[0]) : fmod(sign * 5, in[0]);
                          },
                      .reference =
                          [=](const TensorList& in) {
                            Doubles values = in[0].to_vector<double>();
                            for (double& b : values) {
                              const double quotient = sign * 5 / b;
                              b = sign * 5 - b * (floors ? std::floor(quotient) : std::trunc(quotient));
                            }
                            return values;
                          },
                      .roundings = 64});
  EXPECT_EQ(fmod(-7.0, longs({3, -2, 8})).to_vector<int64_t>(), (Longs{-1, -1, -7}));
  EXPECT_EQ(remainder(-7.0, longs({3, -2, 8})).to_vector<int64_t>(), (Longs{2, -1, 1}));
  expect_error([] { fmod(2.5, longs({3})); }, "fmod: 2.5 is not a whole number");
  expect_error([] { remainder(2.5, longs({3})); }, "remainder: 2.5 is not a whole number");
  expect_error([] { fmod(2.0, longs({0})); }, "fmod: division of integers by 0");
}

TEST(Numbers, TakeTheDtypeOfTheTensorBesideThem) {
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32, DType::u8}) {
    SCOPED_TRACE(detail::join(dtype));
    const Tensor x = Tensor::from<double>({0, 3, 7}, {3}).to(dtype).to(test_device()), m = x > 2;
    auto is = [&](const Tensor& y, const Doubles& want) {
      EXPECT_EQ(y.dtype(), dtype);
      EXPECT_EQ(y.shape(), x.shape());
      EXPECT_EQ(y.to_vector<double>(), want);
    };
    is(where(m, x, 5), {5, 3, 7});
    is(where(m, 5, x), {0, 5, 5});
    is(maximum(x, 5), {5, 5, 7});
    is(maximum(5, x), {5, 5, 7});
    is(minimum(x, 5), {0, 3, 5});
    is(minimum(5, x), {0, 3, 5});
    is(masked_fill(x, m, scalar(9, DType::u8, test_device())), {0, 9, 9});
    is(masked_fill(x, m, full({1, 1, 1}, 9, dtype, test_device())), {0, 9, 9});
  }
  const Tensor m = Tensor::from<uint8_t>({1, 0}, {2}).to(DType::boolean).to(test_device());
  EXPECT_EQ(where(m, 1.5, 0.0).dtype(), DType::f32);
  EXPECT_EQ(where(m, 1.5, 0.0).to_vector<double>(), (Doubles{1.5, 0}));
  EXPECT_EQ(where(m, m, 1).dtype(), DType::boolean);
  EXPECT_EQ(where(m, m, 1).to_vector<double>(), (Doubles{1, 1}));
}

TEST(Numbers, ThatDoNotFitAreErrors) {
  const Tensor x = longs({1, 2}), m = x > 1, bytes = x.to(DType::u8);
  expect_error([&] { where(m, x, 0.5); }, "where: 0.5 is not a whole number, and the tensor is i64");
  expect_error([&] { where(m, 0.5, x); }, "where: 0.5 is not a whole number");
  expect_error([&] { maximum(x, 0.5); }, "maximum: 0.5 is not a whole number");
  expect_error([&] { minimum(0.5, x); }, "minimum: 0.5 is not a whole number");
  expect_error([&] { maximum(bytes, -1); }, "maximum: -1 does not fit u8");
  expect_error([&] { where(m, m, 2); }, "where: 2 does not fit bool");
  expect_error([&] { where(m, Tensor(), 2); }, "where: tensor argument 0 is undefined");
  expect_error([&] { where(Tensor(), 1, 2); }, "where: tensor argument 0 is undefined");
  expect_error([&] { masked_fill(x, m, scalar(0.5)); }, "masked_fill: a value of f32 does not fit in i64");
  expect_error([&] { masked_fill(x, m, x); }, "masked_fill: the value must have one element, got (2,)");
  expect_error([&] { masked_fill(x, ones({3}) > 0, scalar(1, DType::i64)); }, "masked_fill: ", "(2,)",
               "(3,)");
}

// As PyTorch's out of place: the result has the shape that both broadcast to. In place the tensor keeps its own.
TEST(Numbers, FillAndSelectWhereMaskAndTensorBroadcast) {
  const Tensor row = longs({1, 2, 3}).reshape({1, 3}), column = longs({0, 1}).reshape({2, 1}) > 0,
               mask = longs({1, 0, 0, 0, 1, 1}).reshape({2, 3}) > 0;
  EXPECT_EQ(masked_fill(row, mask, 9).to_vector<int64_t>(), (Longs{9, 2, 3, 1, 9, 9}));
  EXPECT_EQ(masked_fill(row, mask, scalar(9, DType::u8, test_device())).shape(), (Shape{2, 3}));
  EXPECT_EQ(masked_fill(row, column, 9).to_vector<int64_t>(), (Longs{1, 2, 3, 9, 9, 9}));
  EXPECT_EQ(masked_select(row, mask).to_vector<int64_t>(), (Longs{1, 2, 3}));
  EXPECT_EQ(masked_select(row, column).to_vector<int64_t>(), (Longs{1, 2, 3}));
  EXPECT_EQ(masked_select(scalar(4, DType::i64, test_device()), mask).to_vector<int64_t>(), (Longs{4, 4, 4}));
  expect_error([&] { row.clone().masked_fill_(mask, 9); },
               "masked_fill_: the source (2, 3) does not broadcast to the target (1, 3)");
  const Tensor x = row.to(DType::f32).detach().set_requires_grad();
  sum(masked_select(x, mask) * 2.0).backward();
  sum(masked_fill(x, mask, 0)).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (Doubles{3, 3, 3}));
}

// Beside integers the number is compared as it is, beside floating ones it is rounded to their dtype first.
TEST(Numbers, AreCompared) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const Longs values{-2, 0, 1, 2, 3};
  for (double number : {0.0, 1.0, 1.5, -2.5, 0x1p70, -inf, std::nan("")}) {
    SCOPED_TRACE(number);
    const Tensor x = longs(values);
    auto is = [&](const Tensor& y, auto compare) {
      Doubles want;
      for (int64_t value : values) want.push_back(compare(double(value), number));
      EXPECT_EQ(y.dtype(), DType::boolean);
      EXPECT_EQ(y.to_vector<double>(), want);
    };
    for (const Tensor& same : {x, x.to(DType::i32), x.to(DType::f64)}) {
      is(equal(same, number), std::equal_to<>());
      is(not_equal(same, number), std::not_equal_to<>());
      is(less(same, number), std::less<>());
      is(less_equal(same, number), std::less_equal<>());
      is(greater(same, number), std::greater<>());
      is(greater_equal(same, number), std::greater_equal<>());
    }
  }
  const Tensor tenth = full({1}, 0.1, DType::f16, test_device());
  EXPECT_TRUE(bool(equal(tenth, 0.1)));
}

TEST(Numbers, ShareGradientsAsTensorsDo) {
  const Tensor x = Tensor::from<float>({-1, 0, 2}, {3}).to(test_device()).detach().set_requires_grad();
  EXPECT_EQ(grad({sum(maximum(x, 0))}, {x})[0].to_vector<double>(), (Doubles{0, 0.5, 1}));
  EXPECT_EQ(grad({sum(minimum(0, x))}, {x})[0].to_vector<double>(), (Doubles{1, 0.5, 0}));
  EXPECT_TRUE(std::isnan(maximum(x, NAN).to_vector<double>()[0]));
  const Tensor value = full({1, 1}, 4, DType::f64, test_device()).set_requires_grad();
  const TensorList g = grad({sum(masked_fill(x, x > -0.5, value) * 3.0)}, {x, value});
  EXPECT_EQ(g[0].to_vector<double>(), (Doubles{3, 0, 0}));
  EXPECT_EQ(g[1].to_vector<double>(), (Doubles{6}));
  EXPECT_EQ(g[1].dtype(), DType::f64);
  EXPECT_EQ(g[1].shape(), (Shape{1, 1}));
}

// A number is no argument whose dtype counts: that of the tensor is the widest.
TEST(Numbers, DoNotWidenUnderAutocast) {
  const amp::Autocast scope(test_device(), DType::bf16);
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    const Tensor x = ones({2}, dtype, test_device()), m = x > 0;
    for (const Tensor& y : {where(m, x, 0), where(m, 0, x), maximum(x, 0), minimum(x, 0), fmod(2, x),
                            remainder(2, x), masked_fill(x, m, scalar(0, DType::f32, test_device()))})
      EXPECT_EQ(y.dtype(), dtype);
  }
}

}  // namespace
}  // namespace reprise
