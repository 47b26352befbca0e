// Functions in place, against loops, in all dtypes and layouts; what integers refuse.
#include <cmath>
#include <limits>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/autograd/ops/index/along_dim.h"
#include "reprise/tests/support/op_case.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;
using testing::test_device;
using Longs = std::vector<int64_t>;

TEST(InPlaceFunctions, PassEveryCheckOfAnOp) {
  struct Case {
    const char* name;
    std::function<void(const Tensor& x)> change;
    double (*of)(double x, int64_t column_minus_row);
  };
  for (const Case& c : {
           Case{"pow_", [](const Tensor&x) { x.pow_(1.5); },
                [](double x, int64_t) { return std::pow(x, 1.5); }},
           Case{"abs_", [](const Tensor&x) { x.abs_(); }, [](double x, int64_t) { return std::fabs(x); }},
           Case{"exp_", [](const Tensor&x) { x.exp_(); }, [](double x, int64_t) { return std::exp(x); }},
           Case{"log_", [](const Tensor&x) { x.log_(); }, [](double x, int64_t) { return std::log(x); }},
           Case{"neg_", [](const Tensor&x) { x.neg_(); }, [](double x, int64_t) { return -x; }},
           Case{"sigmoid_", [](const Tensor&x) { x.sigmoid_(); },
                [](double x, int64_t) { return 1 / (1 + std::exp(-x)); }},
           Case{"sqrt_", [](const Tensor&x) { x.sqrt_(); }, [](double x, int64_t) { return std::sqrt(x); }},
           Case{"square_", [](const Tensor&x) { x.square_(); }, [](double x, int64_t) { return x * x; }},
           Case{"tanh_", [](const Tensor&x) { x.tanh_(); }, [](double x, int64_t) { return std::tanh(x); }},
           Case{"tril_", [](const Tensor&x) { x.tril_(1); },
                [](double x, int64_t diagonal) { return diagonal <= 1 ? x : 0; }},
           Case{"sin_", [](const Tensor&x) { x.sin_(); }, [](double x, int64_t) { return std::sin(x); }},
           Case{"cos_", [](const Tensor&x) { x.cos_(); }, [](double x, int64_t) { return std::cos(x); }},
           Case{"erf_", [](const Tensor&x) { x.erf_(); }, [](double x, int64_t) { return std::erf(x); }},
           Case{"log1p_", [](const Tensor&x) { x.log1p_(); },
                [](double x, int64_t) { return std::log1p(x); }},
           Case{"expm1_", [](const Tensor&x) { x.expm1_(); },
                [](double x, int64_t) { return std::expm1(x); }},
           Case{"reciprocal_", [](const Tensor&x) { x.reciprocal_(); },
                [](double x, int64_t) { return 1 / x; }},
           Case{"rsqrt_", [](const Tensor&x) { x.rsqrt_(); },
                [](double x, int64_t) { return 1 / std::sqrt(x); }},
           Case{"elu_", [](const Tensor&x) { x.neg_().elu_(0.5); },
                [](double x, int64_t) { return 0.5 * std::expm1(-x); }},
           Case{"leaky_relu_", [](const Tensor&x) { x.neg_().leaky_relu_(0.25); },
                [](double x, int64_t) { return -0.25 * x; }},
           Case{"triu_", [](const Tensor&x) { x.triu_(-1); },
                [](double x, int64_t diagonal) { return diagonal >= -1 ? x : 0; }},
       })
    check_op(OpCase{.name = c.name,
                    .inputs = {{{4, 5}, 0.25, 2}},
                    .fn =
                        [change = c.change](const TensorList& in) {
                          const Tensor x = in[0].clone();
                          change(x);
                          return x;
                        },
                    .reference =
                        [of = c.of](const TensorList& in) {
                          std::vector<double> values = in[0].to_vector<double>();
                          for (int64_t i = 0; i < 20; ++i)
                            values[size_t(i)] = of(values[size_t(i)], i % 5 - i / 5);
                          return values;
                        },
                    .roundings = 32,
                    .empty_inputs = {{{0, 5}}}});
}

TEST(InPlaceFunctions, OfSeveralTensorsPassEveryCheckOfAnOp) {
  for (double weight : {0.25, 0.75, 1.0})
    check_op(OpCase{.name = detail::join("lerp_ by ", weight),
                    .inputs = {{{3, 5}}, {{5}}},
                    .fn = [=](const TensorList& in) { return in[0].clone().lerp_(in[1], weight); },
                    .reference =
                        [=](const TensorList& in) {
                          std::vector<double> x = in[0].to_vector<double>();
                          const std::vector<double> end = in[1].to_vector<double>();
                          for (size_t i = 0; i < x.size(); ++i) x[i] += weight * (end[i % 5] - x[i]);
                          return x;
                        }});
  for (bool divides : {false, true})
    check_op(OpCase{.name = divides ? "addcdiv_" : "addcmul_",
                    .inputs = {{{3, 5}}, {{5}}, {.shape = {3, 1}, .low = 0.5, .either_sign = true}},
                    .fn =
                        [=](const TensorList& in) {
                          const Tensor x = in[0].clone();
                          return divides ? x.addcdiv_(in[1], in[2], 1.5) : x.addcmul_(in[1], in[2], 1.5);
                        },
                    .reference =
                        [=](const TensorList& in) {
                          std::vector<double> x = in[0].to_vector<double>();
                          const std::vector<double> a = in[1].to_vector<double>(),
                                                    b = in[2].to_vector<double>();
                          for (size_t i = 0; i < x.size(); ++i)
                            x[i] += 1.5 * (divides ? a[i % 5] / b[i / 5] : a[i % 5] * b[i / 5]);
                          return x;
                        },
                    .roundings = 24});
}

// As PyTorch 2.15: what is added is computed in the wider dtype, and the tensor keeps its own.
TEST(InPlaceFunctions, TakeTensorsOfOtherDtypes) {
  const Tensor whole = Tensor::from<int64_t>({-3, 0, 4}, {3}).to(test_device());
  auto number = [](double value, DType dtype) { return full({3}, value, dtype, test_device()); };
  using Doubles = std::vector<double>;
  auto is = [](const Tensor& y, DType dtype, const Doubles& want) {
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(y.to_vector<double>(), want);
  };
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    is(number(1.5, dtype).add_(whole, 0.5), dtype, {0, 1.5, 3.5});
    is(number(1.5, dtype).sub_(whole.to(DType::u8).to(DType::boolean)), dtype, {0.5, 1.5, 0.5});
    is(number(1.5, dtype).addcmul_(whole, number(2, DType::i32), 0.5), dtype, {-1.5, 1.5, 5.5});
    is(number(1.5, dtype).addcdiv_(whole, number(2, DType::i32)), dtype, {0, 1.5, 3.5});
    is(number(1.5, dtype).lerp_(whole, 0.5), dtype, {-0.75, 0.75, 2.75});
    is(number(1.5, dtype).lerp_(whole, number(0.75, DType::f64)), dtype, {-1.875, 0.375, 3.375});
  }
  is(whole.to(DType::i32).add_(whole, 2), DType::i32, {-9, 0, 12});
  is(number(250, DType::u8).add_(whole.abs_(), 2), DType::u8, {0, 250, 2});  // wraps
  // The next number of bf16 after 1 is 1 + 2^-7. What is added lies just above the middle; rounded first, in the middle.
  const Tensor near = number(0x1p-8 + 0x1p-20, DType::f32);
  is(number(1, DType::bf16).add_(near), DType::bf16, Doubles(3, 1 + 0x1p-7));
  is(number(1, DType::bf16).add_(near.to(DType::bf16)), DType::bf16, Doubles(3, 1));
  const Tensor mask = (whole > 0).clone();
  expect_error([&] { mask.add_(whole); }, "add_: the result of bool and i64 does not fit in bool");
  expect_error([&] { mask.cumsum_(0); }, "cumsum_: the result, i64, does not fit in bool");
}

// A weight of 1 gives the end exactly, whatever is lost of the difference: as PyTorch's.
TEST(InPlaceFunctions, LerpEndsAtItsEnd) {
  const Tensor x = full({2}, 1e8, DType::f32, test_device()), end = full({2}, 0.3, DType::f32, test_device());
  EXPECT_EQ(x.clone().lerp_(end, 1).to_vector<float>(), end.to_vector<float>());
  EXPECT_EQ(x.clone().lerp_(end, 0).to_vector<float>(), x.to_vector<float>());
}

TEST(InPlaceFunctions, KeepIntegersOrRefuseWhatTheyDoNotHave) {
  auto whole = [] { return Tensor::from<int64_t>({-3, 0, 4}, {3}).to(test_device()); };
  EXPECT_EQ(whole().abs_().to_vector<int64_t>(), (Longs{3, 0, 4}));
  EXPECT_EQ(whole().neg_().to_vector<int64_t>(), (Longs{3, 0, -4}));
  EXPECT_EQ(whole().square_().to_vector<int64_t>(), (Longs{9, 0, 16}));
  EXPECT_EQ(whole().pow_(3).to_vector<int64_t>(), (Longs{-27, 0, 64}));
  EXPECT_EQ(whole().addcmul_(whole(), whole(), 2).to_vector<int64_t>(), (Longs{15, 0, 36}));
  EXPECT_EQ(whole().reshape({1, 3}).tril_().to_vector<int64_t>(), (Longs{-3, 0, 0}));
  EXPECT_EQ(whole().dtype(), DType::i64);
  const Tensor x = whole();
  expect_error([&] { x.sqrt_(); }, "sqrt", "i64");
  expect_error([&] { x.exp_(); }, "exp", "i64");
  expect_error([&] { x.pow_(0.5); }, "pow: 0.5 is not a whole number");
  expect_error([&] { x.pow_(-1); }, "pow: i64 to the negative power -1");
  expect_error([&] { x.lerp_(x, 0.5); }, "lerp_: needs a floating dtype, got i64");
  expect_error([&] { x.addcdiv_(x, x); }, "addcdiv_: needs a floating dtype, got i64");
  expect_error([&] { x.addcmul_(x, x, 0.5); }, "addcmul_: 0.5 is not a whole number");
  expect_error([&] { x.addcmul_(x, ones({3}, DType::f32, test_device())); },
               "addcmul_: the result of i64 and f32 does not fit in i64");
  expect_error([&] { x.add_(ones({3}, DType::f32, test_device())); },
               "add_: the result of i64 and f32 does not fit in i64");
  expect_error([&] { x.div_(x); }, "div_: the result, f32, does not fit in i64");
  expect_error([&] { x.reciprocal_(); }, "reciprocal_: the result, f32, does not fit in i64");
  expect_error([&] { x.abs_().scatter_(0, x, 0.5); }, "scatter: 0.5 is not a whole number");
  EXPECT_EQ(x.to_vector<int64_t>(), (Longs{3, 0, 4}));
}

TEST(InPlaceFunctions, RefuseShapesThatDoNotFit) {
  const Tensor x = ones({2, 3}), i = zeros({1}, DType::i64);
  expect_error([&] { x.lerp_(ones({4}), 0.5); },
               "lerp_: the source (4,) does not broadcast to the target (2, 3)");
  expect_error([&] { x.select(0, 0).addcmul_(x, x); }, "addcmul_: the source (2, 3) does not broadcast");
  expect_error([&] { x.addcdiv_(x, Tensor()); }, "addcdiv_: the source is undefined");
  expect_error(
      [&] {
        x.index_add_(0, i, ones({2, 3}));
      },
      "index_add: the source (2, 3) is not of shape (1, 3)");
  expect_error([&] { x.index_copy_(0, zeros({1}, DType::i64), Tensor()); }, "is undefined");
  expect_error([&] { x.expand({2, 2, 3}).exp_(); }, "exp_: the target is expanded");
  expect_error([] { Tensor().tanh_(); }, "tanh_: the tensor was never given a value");
  expect_error([] { Tensor().index_fill_(0, Tensor(), 1); },
               "index_fill_: the tensor was never given a value");
}

// Where autocast would compute in another dtype the tensor keeps its own.
TEST(InPlaceFunctions, KeepTheirDtypeUnderAutocast) {
  const amp::Autocast scope(test_device(), DType::bf16);
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    const Tensor w = full({2}, 0.5, dtype, test_device()).set_requires_grad();
    Tensor x = w * 1.0;
    x.exp_().log_().sqrt_().pow_(3).square_().lerp_(w, 0.25).addcmul_(w, w).addcdiv_(w, w);
    x.scatter_add_(0, zeros({2}, DType::i64, test_device()), w);
    EXPECT_EQ(x.dtype(), dtype);
    sum(x).backward();
    EXPECT_EQ(w.grad().dtype(), dtype);
  }
}

// The tensor stays contiguous, whatever the dimension: recorded, or written.
TEST(InPlaceFunctions, AlongADimensionLeaveTheStrides) {
  const Tensor i = Tensor::from<int64_t>({1}, {1}).to(test_device()),
               row = full({1, 3}, 2, DType::f32, test_device()).set_requires_grad();
  for (bool records : {false, true}) {
    const Tensor x = zeros({2, 3}, DType::f32, test_device());
    x.index_copy_(0, i, records ? row : row.detach());
    EXPECT_EQ(x.strides(), (Strides{3, 1}));
    x.index_fill_(1, i, 7).index_add_(0, i, row.detach());
    EXPECT_EQ(x.requires_grad(), records);
    EXPECT_EQ(x.strides(), (Strides{3, 1}));
    EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{0, 7, 0, 4, 9, 4}));
  }
}

}  // namespace
}  // namespace reprise
