// Functions of integers and masks that have fractions: f32, as PyTorch's default dtype, against the C++ library in f64.
#include <cmath>
#include <limits>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/pointwise.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::expect_error;
using testing::test_device;

constexpr DType kWhole[] = {DType::i64, DType::i32, DType::u8, DType::boolean};

// 0, 1 and, but of bool, 3 and 200.
Tensor numbers(DType dtype) { return Tensor::from<int64_t>({0, 1, 3, 200}, {4}).to(dtype).to(test_device()); }

// Each is f32, and as close to `want` as a rounding or two of it.
void expect_close(const Tensor& y, const std::vector<double>& want) {
  EXPECT_EQ(y.dtype(), DType::f32);
  const std::vector<double> got = y.to_vector<double>();
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i)
    if (std::isfinite(want[i]) && std::fabs(want[i]) < std::numeric_limits<float>::max())
      EXPECT_NEAR(got[i], want[i], 4e-7 * std::fabs(want[i]) + 1e-7) << i;
    else if (std::isnan(want[i]))
      EXPECT_TRUE(std::isnan(got[i])) << i;
    else
      EXPECT_EQ(got[i], want[i] > 0 ? INFINITY : -INFINITY) << i;
}

TEST(WholeNumbers, HaveFunctionsInF32) {
  struct Function {
    const char* name;
    Tensor (*fn)(const Tensor&);
    double (*value)(double);
  };
  for (const Function& f :
       {Function{"exp", exp, std::exp}, Function{"log", log, std::log}, Function{"sqrt", sqrt, std::sqrt},
        Function{"sin", sin, std::sin}, Function{"cos", cos, std::cos}, Function{"tanh", tanh, std::tanh},
        Function{"erf", erf, std::erf}, Function{"log1p", log1p, std::log1p},
        Function{"expm1", expm1, std::expm1},
        Function{"sigmoid", sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }},
        Function{"reciprocal", reciprocal, [](double x) { return 1 / x; }},
        Function{"rsqrt", rsqrt, [](double x) { return 1 / std::sqrt(x); }}})
    for (DType dtype : kWhole) {
      SCOPED_TRACE(detail::join(f.name, " of ", dtype));
      const Tensor x = numbers(dtype);
      std::vector<double> want = x.to_vector<double>();
      for (double& value : want) value = f.value(value);
      expect_close(f.fn(x), want);
    }
}

TEST(WholeNumbers, AreDividedInF32) {
  for (DType dtype : kWhole)
    for (DType by : kWhole) {
      SCOPED_TRACE(detail::join(dtype, " / ", by));
      const Tensor a = numbers(dtype), b = numbers(by);
      const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
      std::vector<double> quotients, thirds, of_two;
      for (size_t i = 0; i < x.size(); ++i) {
        quotients.push_back(x[i] / y[i]);
        thirds.push_back(x[i] / 2.5);
        of_two.push_back(2 / x[i]);
      }
      expect_close(a / b, quotients);
      expect_close(a / 2.5, thirds);
      expect_close(2 / a, of_two);
    }
  const Tensor whole = numbers(DType::i64);
  EXPECT_EQ((whole / numbers(DType::u8).to(DType::bf16)).dtype(), DType::bf16);
  EXPECT_EQ((numbers(DType::u8).to(DType::f64) / whole).dtype(), DType::f64);
  expect_error([&] { whole.div_(2); }, "div", "i64");
  expect_error([&] { whole / Tensor(); }, "div: tensor argument 1 is undefined");
  expect_error([&] { Tensor() / 2; }, "div: tensor argument 0 is undefined");
}

TEST(WholeNumbers, HaveALogSumExp) {
  for (DType dtype : kWhole) {
    const Tensor x = numbers(dtype);
    double sum = 0;
    for (double value : x.to_vector<double>()) sum += std::exp(value);
    expect_close(logsumexp(x), {std::log(sum)});
  }
}

// Those that PyTorch has for floating numbers alone.
TEST(WholeNumbers, HaveNoActivations) {
  const Tensor x = numbers(DType::i64);
  for (auto* fn : {gelu, gelu_tanh, silu, static_cast<Tensor (*)(const Tensor&)>(softplus)})
    expect_error([&] { fn(x); }, "i64");
  EXPECT_EQ(relu(x).dtype(), DType::i64);
}

TEST(WholeNumbers, AreF32UnderAutocastToo) {
  const amp::Autocast scope(test_device(), DType::bf16);
  const Tensor x = numbers(DType::i32);
  for (const Tensor& y : {exp(x), sqrt(x), x / x, x / 2, 2 / x, logsumexp(x)})
    EXPECT_EQ(y.dtype(), DType::f32);
}

}  // namespace
}  // namespace reprise
