// Gradients at kinks, ties, infinities and NaN: the plain pass and create_graph agree, on the values that
// docs/coming_from_pytorch.md lists.
#include <cmath>
#include <limits>
#include <optional>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::test_device;
using testing::unit_roundoff;

constexpr double inf = std::numeric_limits<double>::infinity(),
                 nan = std::numeric_limits<double>::quiet_NaN();
constexpr double kPoints[] = {0, -0.0, inf, -inf, nan};
constexpr DType kDTypes[] = {DType::f16, DType::bf16, DType::f32, DType::f64};

using Unary = Tensor (*)(const Tensor&);

struct Function {
  const char* name;
  Unary fn;
  std::optional<double> at[5];  ///< the derivative at 0, -0, inf, -inf, NaN, where it is promised
};
std::ostream& operator<<(std::ostream& out, const Function& f) { return out << f.name; }

Tensor number(const Tensor& x, double value) { return scalar(value, x.dtype(), x.device()); }

/// By a mean of 0 and a variance of 1, so that the norm is x itself.
Tensor normed(const Tensor& x, const BatchNormEpilogue& epilogue) {
  Tensor mean = zeros({1}, DType::f32, x.device()), variance = ones({1}, DType::f32, x.device());
  return batch_norm(reshape(x, {-1, 1}), {}, {}, mean, variance, {.eps = 0, .epilogue = epilogue})
      .reshape(x.shape());
}

const Function kFunctions[] = {
    {"neg", [](const Tensor& x) { return -x; }, {-1, -1, -1, -1, -1}},
    {"abs", abs, {0, 0, 1, -1, nan}},
    {"square", square, {0, 0, inf, -inf, nan}},
    {"reciprocal", reciprocal, {-inf, -inf, 0, 0, nan}},
    {"sqrt", sqrt, {inf, -inf, 0, nan, nan}},
    {"rsqrt", rsqrt, {-inf, inf, 0, nan, nan}},
    {"exp", exp, {1, 1, inf, 0, nan}},
    {"log", log, {inf, -inf, 0, 0, nan}},
    {"sin", sin, {1, 1, nan, nan, nan}},
    {"cos", cos, {0, 0, nan, nan, nan}},
    {"tanh", tanh, {1, 1, 0, 0, nan}},
    {"sigmoid", sigmoid, {0.25, 0.25, 0, 0, nan}},
    {"erf", erf, {1.1283791670955126, 1.1283791670955126, 0, 0, nan}},
    {"relu", relu, {0, 0, 1, 0, 1}},
    {"gelu", gelu, {0.5, 0.5, nan, nan, nan}},
    {"gelu_tanh", gelu_tanh, {0.5, 0.5, {}, {}, nan}},
    {"silu", silu, {0.5, 0.5, nan, nan, nan}},
    {"linear with relu",
     [](const Tensor& x) {
       Tensor one = ones({1, 1}, x.dtype(), x.device());
       return linear(reshape(x, {-1, 1}), one, {}, {.activation = Activation::relu}).reshape(x.shape());
     },
     {0, 0, 1, 0, 1}},
    {"mlp with relu",
     [](const Tensor& x) {
       Tensor one = ones({1, 1}, x.dtype(), x.device());
       return mlp(reshape(x, {-1, 1}), one, {}, one, {}, Activation::relu).reshape(x.shape());
     },
     {0, 0, 1, 0, 1}},
    {"batch_norm with relu",
     [](const Tensor& x) { return normed(x, {.activation = Activation::relu}); },
     {0, 0, 1, 0, 1}},
    {"relu of batch_norm and a residual",
     [](const Tensor& x) {
       return normed(zeros(x.shape(), x.dtype(), x.device()),
                     {.activation = Activation::relu, .residual = reshape(x, {-1, 1})});
     },
     {0, 0, 1, 0, 1}},
    {"maximum with 0", [](const Tensor& x) { return maximum(x, number(x, 0)); }, {0.5, 0.5, 1, 0, 1}},
    {"minimum with 0", [](const Tensor& x) { return minimum(x, number(x, 0)); }, {0.5, 0.5, 0, 1, 1}},
    {"maximum with inf", [](const Tensor& x) { return maximum(x, number(x, inf)); }, {0, 0, 0.5, 0, 1}},
    {"maximum with NaN", [](const Tensor& x) { return maximum(number(x, nan), x); }, {1, 1, 1, 1, 1}},
    {"max of one", [](const Tensor& x) { return max(unsqueeze(x, 1), {1}); }, {1, 1, 1, 1, nan}},
    {"where", [](const Tensor& x) { return where(greater(x, number(x, 0)), x, -x); }, {-1, -1, 1, -1, -1}},
    {"clamp",
     [](const Tensor& x) { return minimum(maximum(x, number(x, 0)), number(x, 1)); },
     {0.5, 0.5, 0, 0, 1}},
    {"pow 2", [](const Tensor& x) { return pow(x, 2); }, {0, 0, inf, -inf, nan}},
    {"pow 3", [](const Tensor& x) { return pow(x, 3); }, {0, 0, inf, inf, nan}},
    {"pow 1", [](const Tensor& x) { return pow(x, 1); }, {1, 1, 1, 1, 1}},
    {"pow 0", [](const Tensor& x) { return pow(x, 0); }, {0, 0, 0, 0, 0}},
    {"pow 0.5", [](const Tensor& x) { return pow(x, 0.5); }, {inf, -inf, 0, nan, nan}},
    {"x / 2", [](const Tensor& x) { return x / 2.0; }, {0.5, 0.5, 0.5, 0.5, 0.5}},
    {"1 / x", [](const Tensor& x) { return 1.0 / x; }, {-inf, -inf, 0, 0, nan}},
    {"1 over x", [](const Tensor& x) { return number(x, 1) / x; }, {-inf, -inf, 0, 0, nan}},
    {"swiglu's gate",
     [](const Tensor& x) { return swiglu(x, ones(x.shape(), x.dtype(), x.device())); },
     {0.5, 0.5, nan, nan, nan}},
};

bool equal_or_both_nan(double a, double b, double tolerance = 0) {
  return (std::isnan(a) && std::isnan(b)) || a == b || std::fabs(a - b) <= tolerance;
}

class Kinks : public ::testing::TestWithParam<Function> {};

TEST_P(Kinks, HaveTheSameGradientInThePlainPassAndUnderCreateGraph) {
  const Function& f = GetParam();
  for (DType dtype : kDTypes)
    for (int point = 0; point < 5; ++point) {
      auto derivative = [&](bool create_graph) {
        Tensor x = full({1}, kPoints[point], dtype, test_device()).set_requires_grad();
        Tensor y = f.fn(x);
        return grad({y}, {x}, {ones(y.shape(), dtype, y.device())}, {.create_graph = create_graph})[0].item();
      };
      const double plain = derivative(false), graph = derivative(true);
      EXPECT_TRUE(equal_or_both_nan(plain, graph, 2 * unit_roundoff(dtype)))
          << f.name << "'(" << kPoints[point] << ") " << dtype << ": plain " << plain << ", create_graph "
          << graph;
      if (!f.at[point]) continue;
      EXPECT_TRUE(equal_or_both_nan(plain, *f.at[point], 2 * unit_roundoff(dtype)))
          << f.name << "'(" << kPoints[point] << ") " << dtype << ": " << plain << ", want " << *f.at[point];
    }
}

INSTANTIATE_TEST_SUITE_P(All, Kinks, ::testing::ValuesIn(kFunctions), [](const auto& param_info) {
  std::string name = param_info.param.name;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

// A gradient of infinity is kept out of what relu cut off; times 0 it would be NaN.
TEST(Kinks, OfReluKeepAnInfiniteGradientOutOfWhatWasCutOff) {
  for (bool create_graph : {false, true}) {
    Tensor x = full({1}, -1, DType::f32, test_device()).set_requires_grad();
    Tensor dy = full({1}, inf, DType::f32, test_device());
    EXPECT_EQ(grad({relu(x)}, {x}, {dy}, {.create_graph = create_graph})[0].item(), 0);
  }
}

TEST(SpecialValues, OfForwardAreThoseOfTheTable) {
  struct {
    const char* name;
    Unary fn;
    double at, want;
  } cases[] = {{"pow(-inf, 0.5)", [](const Tensor& x) { return pow(x, 0.5); }, -inf, nan},
               {"pow(-0, 0.5)", [](const Tensor& x) { return pow(x, 0.5); }, -0.0, 0},
               {"gelu(inf)", gelu, inf, inf},
               {"gelu_tanh(inf)", gelu_tanh, inf, inf},
               {"silu(inf)", silu, inf, inf},
               {"relu(NaN)", relu, nan, nan},
               {"maximum(NaN, 0)", [](const Tensor& x) { return maximum(x, number(x, 0)); }, nan, nan},
               {"minimum(0, NaN)", [](const Tensor& x) { return minimum(number(x, 0), x); }, nan, nan}};
  for (auto& [name, fn, at, want] : cases)
    for (DType dtype : kDTypes)
      EXPECT_TRUE(equal_or_both_nan(fn(full({1}, at, dtype, test_device())).item(), want))
          << name << " " << dtype;
}

}  // namespace
}  // namespace reprise
