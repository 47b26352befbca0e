// Elementwise functions of one tensor, against the C++ library's functions in f64.
#include <cmath>
#include <limits>
#include <numbers>

#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/pointwise.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::OpCase;

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double logistic(double x) { return 1 / (1 + std::exp(-x)); }
double gelu_tanh_value(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

struct Function {
  const char* name;
  Tensor (*fn)(const Tensor&);
  double (*value)(double);
  double low = -3, high = 3;
  bool either_sign = false;
  bool twice = true;  ///< differentiable
};
std::ostream& operator<<(std::ostream& out, const Function& f) { return out << f.name; }

// Kinks and poles are kept at a distance: central differences straddle them.
const Function kFunctions[] = {
    {"neg", [](const Tensor& x) { return -x; }, [](double x) { return -x; }},
    {"exp", exp, [](double x) { return std::exp(x); }},
    {"log", log, [](double x) { return std::log(x); }, 0.25, 4},
    {"sqrt", sqrt, [](double x) { return std::sqrt(x); }, 0.25, 4},
    {"rsqrt", rsqrt, [](double x) { return 1 / std::sqrt(x); }, 0.25, 4},
    {"square", square, [](double x) { return x * x; }},
    {"reciprocal", reciprocal, [](double x) { return 1 / x; }, 0.5, 4, true},
    {"abs", abs, [](double x) { return std::fabs(x); }, 0.1, 3, true},
    {"sin", sin, [](double x) { return std::sin(x); }},
    {"cos", cos, [](double x) { return std::cos(x); }},
    {"tanh", tanh, [](double x) { return std::tanh(x); }},
    {"sigmoid", sigmoid, logistic},
    {"erf", erf, [](double x) { return std::erf(x); }},
    {"relu", relu, [](double x) { return std::max(x, 0.0); }, 0.1, 3, true},
    {"gelu", gelu, [](double x) { return x * normal_cdf(x); }},
    {"gelu_tanh", gelu_tanh, gelu_tanh_value},
    {"silu", silu, [](double x) { return x * logistic(x); }},
    {"huber", huber, [](double x) { return std::fabs(x) < 1 ? x * x / 2 : std::fabs(x) - 0.5; }, 1.1, 3,
     true},
    {"floor", floor, [](double x) { return std::floor(x); }, 1.1, 1.4, true, false},
    {"ceil", ceil, [](double x) { return std::ceil(x); }, 1.1, 1.4, true, false},
    {"round", round, [](double x) { return std::nearbyint(x); }, 1.1, 1.4, true, false},
    {"trunc", trunc, [](double x) { return std::trunc(x); }, 1.1, 1.4, true, false},
    {"sign", sign, [](double x) { return x > 0 ? 1.0 : -1.0; }, 0.1, 3, true, false},
    {"log1p", log1p, [](double x) { return std::log1p(x); }, -0.5, 3},
    {"expm1", expm1, [](double x) { return std::expm1(x); }},
    {"softplus", softplus, [](double x) { return std::log1p(std::exp(x)); }},
    {"leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.25); },
     [](double x) { return x > 0 ? x : x / 4; }, 0.1, 3, true},
    {"elu", [](const Tensor& x) { return elu(x, 2); }, [](double x) { return x > 0 ? x : 2 * std::expm1(x); },
     0.1, 3, true},
};

class Unary : public ::testing::TestWithParam<Function> {};

TEST_P(Unary, PassesEveryCheckOfAnOp) {
  const Function& f = GetParam();
  check_op(OpCase{
      .name = f.name,
      .inputs = {{{3, 5}, f.low, f.high, f.either_sign}},
      .fn = [&](const TensorList& in) { return f.fn(in[0]); },
      .reference =
          [&](const TensorList& in) {
            std::vector<double> values = in[0].to_vector<double>();
            for (double& x : values) x = f.value(x);
            return values;
          },
      // One rounding of the result in half types; vector polynomials of a few ulp in f32.
      .roundings = 8,
      .differentiable_twice = f.twice,
      .empty_inputs = {{{3, 0}}},
      .large_inputs = {{{300, 301}, f.low, f.high, f.either_sign}},
  });
}

INSTANTIATE_TEST_SUITE_P(All, Unary, ::testing::ValuesIn(kFunctions),
                         [](const auto& param_info) { return param_info.param.name; });

TEST(Activate, AgreesWithItsComposite) {
  for (Activation activation :
       {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
    check_op(OpCase{
        .name = detail::join("activate ", int(activation)),
        .inputs = {{{7, 3}, 0.1, 3, true}},
        .fn = [=](const TensorList& in) { return activate(in[0] * 1.0, activation); },
        .composite = [=](const TensorList& in) { return composite::activate(in[0], activation); },
    });
  }
}

TEST(Relu, HasNoGradientAtZero) {
  Tensor x = Tensor::from<float>({-1, 0, 2}, {3}).set_requires_grad();
  relu(x).sum().backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{0, 0, 1}));
}

// As PyTorch 2.15 has it.
TEST(Rounding, OfSpecialNumbersIsPyTorchs) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  for (DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    const Tensor x = Tensor::from<double>({-0.0, 0.0, -2.5, 2.5, 3.5, inf, nan}, {7}).to(dtype);
    auto expect = [&](Tensor (*fn)(const Tensor&), const std::vector<double>& want) {
      const std::vector<double> got = fn(x).to_vector<double>();
      EXPECT_EQ(std::vector(got.begin(), got.end() - 1), want) << dtype;
      EXPECT_TRUE(std::isnan(got.back())) << dtype;
      EXPECT_TRUE(std::signbit(got[0])) << dtype;
    };
    expect(floor, {-0.0, 0, -3, 2, 3, inf});
    expect(ceil, {-0.0, 0, -2, 3, 4, inf});
    expect(round, {-0.0, 0, -2, 2, 4, inf});
    expect(trunc, {-0.0, 0, -2, 2, 3, inf});
    EXPECT_EQ(sign(x).to_vector<double>(), (std::vector<double>{0, 0, -1, 1, 1, 1, 0})) << dtype;
  }
  const Tensor whole = Tensor::from<int64_t>({std::numeric_limits<int64_t>::max(), -7}, {2});
  EXPECT_TRUE(testing::same_bits(floor(whole), whole));
  EXPECT_EQ(sign(whole).to_vector<int64_t>(), (std::vector<int64_t>{1, -1}));
}

TEST(Softplus, HasItsLimitsAndDigitsFarOut) {
  const Tensor x = Tensor::from<double>({-800, -40, 0, 800}, {4}).set_requires_grad();
  const std::vector<double> y = softplus(x).to_vector<double>();
  EXPECT_EQ(y[0], 0);
  EXPECT_NEAR(y[1] / std::exp(-40.0), 1, 1e-14);
  EXPECT_NEAR(y[2], std::log(2.0), 1e-15);
  EXPECT_EQ(y[3], 800);
  softplus(x).sum().backward();
  EXPECT_NEAR(x.grad().to_vector<double>()[1] / std::exp(-40.0), 1, 1e-14);
  EXPECT_EQ(x.grad().to_vector<double>()[3], 1);
}

TEST(LeakyReluAndElu, HaveTheSlopeOfTheLeftAtZero) {
  const Tensor x = Tensor::from<float>({0, -1000, 1000}, {3}).set_requires_grad();
  (leaky_relu(x, 0.1).sum() + elu(x, 2).sum()).backward();
  EXPECT_TRUE(testing::is_close(x.grad(), Tensor::from<float>({2.1F, 0.1F, 2}, {3}), 1e-6));
}

// log(1 + e^(beta x)) / beta, and x behind the threshold, as PyTorch's.
TEST(Softplus, TakesBetaAndThreshold) {
  for (auto [beta, threshold] : {std::pair{2.0, 20.0}, {0.5, 20.0}, {3.0, 1.5}})
    check_op(OpCase{.name = detail::join("softplus of beta ", beta, " up to ", threshold),
                    .inputs = {{{3, 5}}},
                    .fn = [b = beta, t = threshold](const TensorList& in) { return softplus(in[0], b, t); },
                    .reference =
                        [b = beta, t = threshold](const TensorList& in) {
                          std::vector<double> y = in[0].to_vector<double>();
                          for (double& x : y) x = x * b > t ? x : std::log1p(std::exp(x * b)) / b;
                          return y;
                        },
                    .roundings = 32});
  const Tensor x = Tensor::from<double>({19.5, 20.5, 1000, -1000}, {4}).set_requires_grad();
  const Tensor y = softplus(x, 1);
  EXPECT_GT(y.to_vector<double>()[0], 19.5);
  EXPECT_EQ(y.to_vector<double>()[1], 20.5);
  EXPECT_EQ(y.to_vector<double>()[3], 0);
  sum(y).backward();
  EXPECT_EQ(x.grad().to_vector<double>()[1], 1);
  EXPECT_EQ(x.grad().to_vector<double>()[2], 1);
  EXPECT_EQ(softplus(ones({2}, DType::bf16), 2).dtype(), DType::bf16);
}

}  // namespace
}  // namespace reprise
