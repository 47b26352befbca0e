// Gradients where numbers are as large or as small as their dtype has them, against the derivatives in long
// double, whose exponents reach sixteen times as far as those of double. The plain pass and create_graph.
#include <cfloat>
#include <cmath>
#include <numbers>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::test_device;
using testing::unit_roundoff;

using Real = long double;

/// The exponents of the normal numbers of a dtype, and of the type it is computed in.
struct Range {
  DType dtype;
  int lowest, highest, compute_lowest, compute_highest;
};
const Range kRanges[] = {{DType::f16, -14, 15, -126, 127},
                         {DType::bf16, -126, 127, -126, 127},
                         {DType::f32, -126, 127, -126, 127},
                         {DType::f64, -1022, 1023, -1022, 1023}};

bool is_normal(Real x, int lowest, int highest) {
  Real size = std::fabs(x);
  return size >= std::ldexp(Real(1), lowest) && size < std::ldexp(Real(1), highest);
}

/// 1.25 * 2^e over the range of the dtype, of both signs.
std::vector<double> points(const Range& range) {
  std::vector<double> list;
  const int step = std::max(1, (range.highest - range.lowest) / 60);
  for (int e = range.lowest; e <= range.highest; e += step)
    for (double sign : {1.0, -1.0}) list.push_back(sign * std::ldexp(1.25, e));
  for (int e = -4; e <= std::min(7, range.highest); ++e)  // where most functions bend
    for (double sign : {1.0, -1.0}) list.push_back(sign * std::ldexp(1.25, e));
  return list;
}

Tensor tensor_of(const std::vector<double>& values, DType dtype) {
  return Tensor::from(values, {int64_t(values.size())}).to(dtype).to(test_device()).detach();
}

enum class Scale { relative, of_dy };

struct Function {
  const char* name;
  Tensor (*fn)(const Tensor&);
  Real (*derivative)(Real);
  Scale scale = Scale::relative;
  bool saturates = false;  ///< made of an exponential: beyond its range nothing is promised
  bool positive = false;
  double roundings = 8;
};
std::ostream& operator<<(std::ostream& out, const Function& f) { return out << f.name; }

Real logistic(Real x) { return 1 / (1 + std::exp(-x)); }
Real density(Real x) { return std::exp(-x * x / 2) * std::sqrt(Real(0.5) / std::numbers::pi_v<Real>); }
Real gelu_tanh_derivative(Real x) {
  const Real k = std::sqrt(2 / std::numbers::pi_v<Real>), c = 0.044715L;
  const Real gate = logistic(2 * k * (x + c * x * x * x));
  return gate + x * gate * logistic(-2 * k * (x + c * x * x * x)) * 2 * k * (1 + 3 * c * x * x);
}

const Function kFunctions[] = {
    {"neg", [](const Tensor& x) { return -x; }, [](Real) -> Real { return -1; }},
    {"abs", abs, [](Real x) -> Real { return x < 0 ? -1 : 1; }},
    {"square", square, [](Real x) { return 2 * x; }},
    {"reciprocal", reciprocal, [](Real x) { return -1 / (x * x); }},
    {"sqrt", sqrt, [](Real x) { return 1 / (2 * std::sqrt(x)); }, Scale::relative, false, true},
    {"rsqrt", rsqrt, [](Real x) { return -1 / (2 * x * std::sqrt(x)); }, Scale::relative, false, true},
    {"log", log, [](Real x) { return 1 / x; }, Scale::relative, false, true},
    {"exp", exp, [](Real x) { return std::exp(x); }, Scale::relative, true},
    {"sin", sin, [](Real x) { return std::cos(x); }, Scale::of_dy},
    {"cos", cos, [](Real x) { return -std::sin(x); }, Scale::of_dy},
    {"tanh", tanh, [](Real x) { return 4 * logistic(2 * x) * logistic(-2 * x); }, Scale::relative, true},
    {"sigmoid", sigmoid, [](Real x) { return logistic(x) * logistic(-x); }, Scale::relative, true},
    {"erf", erf,
     [](Real x) { return 2 * std::numbers::sqrt2_v<Real> * density(x * std::numbers::sqrt2_v<Real>); },
     Scale::of_dy},
    {"relu", relu, [](Real x) -> Real { return x > 0; }},
    {"gelu", gelu, [](Real x) { return std::erfc(-x / std::numbers::sqrt2_v<Real>) / 2 + x * density(x); },
     Scale::of_dy},
    {"gelu_tanh", gelu_tanh, gelu_tanh_derivative, Scale::of_dy, false, false, 32},
    {"silu", silu, [](Real x) { return logistic(x) * (1 + x * logistic(-x)); }, Scale::of_dy, false, false,
     32},
    {"x / 3", [](const Tensor& x) { return x / 3.0; }, [](Real) { return 1 / Real(3); }},
    {"3 / x", [](const Tensor& x) { return 3.0 / x; }, [](Real x) { return -3 / (x * x); }},
    {"pow 2", [](const Tensor& x) { return pow(x, 2); }, [](Real x) { return 2 * x; }},
    {"pow 0.5", [](const Tensor& x) { return pow(x, 0.5); }, [](Real x) { return 1 / (2 * std::sqrt(x)); },
     Scale::relative, false, true},
    {"pow 1.5", [](const Tensor& x) { return pow(x, 1.5); }, [](Real x) { return 1.5L * std::sqrt(x); },
     Scale::relative, false, true},
};

class ExtremeGradients : public ::testing::TestWithParam<Function> {};

void expect_gradient(const Function& f, const Range& range, double dy, bool create_graph) {
  const std::vector<double> at = points(range);
  Tensor x = tensor_of(at, range.dtype).set_requires_grad();
  Tensor gradient = full(x.shape(), dy, x.dtype(), x.device());
  const double tolerance = f.roundings * unit_roundoff(range.dtype);
  const std::vector<double> xs = x.detach().to_vector<double>();
  const std::vector<double> got =
      grad({f.fn(x)}, {x}, {gradient}, {.create_graph = create_graph})[0].detach().to_vector<double>();
  for (size_t i = 0; i < xs.size(); ++i) {
    if (f.positive && xs[i] < 0) continue;
    const Real slope = f.derivative(xs[i]), want = dy * slope;
    if (f.saturates && !is_normal(slope, range.compute_lowest, range.compute_highest)) continue;
    const Real smallest = std::ldexp(Real(1), range.lowest);
    if (std::fabs(want) >= std::ldexp(Real(1.9), range.highest)) continue;  // has no place in the dtype
    const Real allowed =
        tolerance * (f.scale == Scale::of_dy ? std::max<Real>(std::fabs(want), dy) : std::fabs(want));
    EXPECT_LE(std::fabs(got[i] - want), allowed + smallest * tolerance * 4)
        << f.name << "'(" << xs[i] << ") " << range.dtype << " dy " << dy
        << (create_graph ? " create_graph" : "") << ": got " << got[i] << ", want " << double(want);
  }
}

TEST_P(ExtremeGradients, HaveTheDerivativesValueWhereverTheDtypeHasOne) {
  for (const Range& range : kRanges)
    for (int exponent : {0, range.lowest / 2, range.highest / 2})
      for (bool create_graph : {false, true})
        expect_gradient(GetParam(), range, std::ldexp(1, exponent), create_graph);
}

INSTANTIATE_TEST_SUITE_P(All, ExtremeGradients, ::testing::ValuesIn(kFunctions), [](const auto& param_info) {
  std::string name = param_info.param.name;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

// Wherever the quotient has a place in the dtype, so has the way to its gradient.
TEST(ExtremeGradients, OfAQuotientForItsDivisor) {
  for (const Range& range : kRanges)
    for (bool create_graph : {false, true}) {
      std::vector<double> as, bs;
      for (double a : points(range))
        for (double b : points(range))
          if (is_normal(Real(a) / b, range.compute_lowest, range.compute_highest) && a > 0)
            as.push_back(a), bs.push_back(b);
      Tensor a = tensor_of(as, range.dtype), b = tensor_of(bs, range.dtype).set_requires_grad();
      Tensor dy = ones(b.shape(), b.dtype(), b.device());
      std::vector<double> got =
          grad({a / b}, {b}, {dy}, {.create_graph = create_graph})[0].detach().to_vector<double>();
      const double tolerance = 6 * unit_roundoff(range.dtype);
      for (size_t i = 0; i < as.size(); ++i) {
        const Real want = -Real(as[i]) / bs[i] / bs[i];
        if (std::fabs(want) >= std::ldexp(Real(1.9), range.highest)) continue;
        EXPECT_LE(std::fabs(got[i] - want),
                  tolerance * (std::fabs(want) + 4 * std::ldexp(Real(1), range.lowest)))
            << range.dtype << " " << as[i] << " / " << bs[i] << (create_graph ? " create_graph" : "")
            << ": got " << got[i] << ", want " << double(want);
      }
    }
}

TEST(ExtremeGradients, OfAQuotientOfNothingAreNothing) {
  for (DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    Tensor b = tensor_of({1e-4, 1e-4, 300}, dtype).set_requires_grad();
    Tensor a = tensor_of({0, 1e-4, 1}, dtype);
    std::vector<double> bs = b.detach().to_vector<double>(),
                        got = grad({(a / b).sum()}, {b})[0].to_vector<double>();
    EXPECT_EQ(got[0], 0);
    EXPECT_NEAR(got[1] * bs[1], -1, 4 * unit_roundoff(dtype)) << dtype;
    EXPECT_NEAR(got[2] * bs[2] * bs[2], -1, 8 * unit_roundoff(dtype)) << dtype;  // subnormal in f16
  }
}

}  // namespace
}  // namespace reprise
