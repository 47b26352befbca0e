// Elementwise functions of one tensor, against the C++ library's functions in f64.
#include <cmath>
#include <numbers>

#include "reprise/autograd/ops.h"
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

}  // namespace
}  // namespace reprise
