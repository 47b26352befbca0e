// simd_math.h and the formulas of activations against std:: in double, over the whole range of float.
#include "reprise/kernels/cpu/simd_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "reprise/kernels/elementwise/cpu_math.h"

namespace reprise::kernels {
namespace {

constexpr int lanes = 16;

/// Points of both signs from 1e-7 to `largest`, evenly spaced in the logarithm, and evenly spaced ones.
std::vector<float> points(float largest) {
  std::vector<float> xs;
  for (double x = 1e-7; x < largest; x *= 1.0007) xs.insert(xs.end(), {float(x), float(-x)});
  for (int i = -20000; i <= 20000; ++i) xs.push_back(largest * float(i) / 20000);
  while (xs.size() % lanes) xs.push_back(0);
  return xs;
}

template <class Function>
std::vector<float> map_points(const std::vector<float>& xs, Function function) {
  std::vector<float> ys(xs.size());
  simd::run([&]<int W>() {
    using V = simd::Vector<float, W>;
    for (size_t i = 0; i < xs.size(); i += W) simd::store(&ys[i], V(function(simd::load<V>(&xs[i]))));
  });
  return ys;
}

/// The distance in units of the last place of `want` (of the smallest normal number, below it).
double ulps(float got, double want) {
  double size = std::max(std::abs(want), double(std::numeric_limits<float>::min()));
  return std::abs(got - want) / std::ldexp(1.0, std::ilogb(size) - 23);
}

template <class Function, class Exact>
void expect_close(float largest, double limit, Function function, Exact exact) {
  std::vector<float> xs = points(largest), ys = map_points(xs, function);
  double worst = 0, at = 0;
  for (size_t i = 0; i < xs.size(); ++i) {
    double error = ulps(ys[i], exact(double(xs[i])));
    if (!(error <= worst)) worst = error, at = xs[i];
  }
  EXPECT_LE(worst, limit) << "at " << at;
  testing::Test::RecordProperty("worst_ulp", std::to_string(worst));
}

// Limits: polynomials are within 0.2 ulp, the rest is the rounding of four or five operations.
TEST(SimdMath, ExpIsWithinTwoUlp) {
  expect_close(
      87.0f, 2, [](auto x) { return simd::exp(x); }, [](double x) { return std::exp(x); });
}

TEST(SimdMath, TanhIsWithinFourUlp) {
  expect_close(
      12.0f, 4, [](auto x) { return simd::tanh(x); }, [](double x) { return std::tanh(x); });
}

TEST(SimdMath, ErfIsWithinFourUlp) {
  expect_close(
      6.0f, 4, [](auto x) { return simd::erf(x); }, [](double x) { return std::erf(x); });
}

TEST(SimdMath, SigmoidIsWithinFourUlp) {
  expect_close(
      80.0f, 4, [](auto x) { return simd::sigmoid(x); }, [](double x) { return 1 / (1 + std::exp(-x)); });
}

TEST(SimdMath, ExtremesAndNan) {
  constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  EXPECT_EQ(simd::exp(-infinity), 0.0f);
  EXPECT_EQ(simd::exp(infinity), infinity);
  EXPECT_EQ(simd::exp(89.0f), infinity);
  EXPECT_EQ(simd::exp(0.0f), 1.0f);
  EXPECT_NEAR(simd::exp(-100.0f), std::exp(-100.0f), 2e-45f);  // subnormal: one unit is 1.4e-45
  EXPECT_EQ(simd::tanh(infinity), 1.0f);
  EXPECT_EQ(simd::tanh(-infinity), -1.0f);
  EXPECT_TRUE(std::signbit(simd::tanh(-0.0f)));
  EXPECT_EQ(simd::erf(infinity), 1.0f);
  EXPECT_EQ(simd::erf(-infinity), -1.0f);
  EXPECT_EQ(simd::sigmoid(-infinity), 0.0f);
  EXPECT_EQ(simd::sigmoid(infinity), 1.0f);
  for (float x = -87; x > -105; x -= 0.01f)  // where e^-x leaves the range of f32
    EXPECT_NEAR(simd::sigmoid(x), 1 / (1 + std::exp(-double(x))), 4.2e-39) << x;
  for (float y : {simd::exp(nan), simd::tanh(nan), simd::erf(nan), simd::sigmoid(nan)})
    EXPECT_TRUE(std::isnan(y));
  EXPECT_TRUE(std::isnan(CpuFormulas::Relu{}(nan)));
}

[[gnu::always_inline]] inline auto activate(Activation activation, auto x) {
  with_activation(activation, [&]<Activation known>() { x = CpuFormulas::Activate<known>{}(x); });
  return x;
}
[[gnu::always_inline]] inline auto activation_gradient(Activation activation, auto dy, auto x) {
  with_activation(activation,
                  [&]<Activation known>() { x = CpuFormulas::Activate<known>{}.gradient(dy, x); });
  return x;
}

constexpr Activation all_activations[] = {Activation::none, Activation::relu, Activation::gelu,
                                          Activation::gelu_tanh, Activation::silu};

TEST(ActivationMath, GradientMatchesCentralDifference) {
  // Error of a central difference in f64 at h = 1e-5: h^2 f'''/6 + 1e-16/h, below 1e-10.
  for (Activation activation : all_activations)
    for (double x = -6.05; x < 6; x += 0.1) {
      double h = 1e-5;
      double slope = (activate(activation, x + h) - activate(activation, x - h)) / (2 * h);
      EXPECT_NEAR(activation_gradient(activation, 1.0, x), slope, 1e-9) << int(activation) << " at " << x;
    }
}

TEST(ActivationMath, KnownValues) {
  // PyTorch 2: F.gelu, F.gelu(approximate="tanh"), F.silu of 1.0 in f64.
  EXPECT_NEAR(activate(Activation::gelu, 1.0), 0.8413447460685429, 1e-15);
  EXPECT_NEAR(activate(Activation::gelu_tanh, 1.0), 0.8411919906082768, 1e-15);
  EXPECT_NEAR(activate(Activation::silu, 1.0), 0.7310585786300049, 1e-15);
}

TEST(ActivationMath, VectorsOfFloatMatchDouble) {
  // f32 arithmetic on values up to 8: absolute error a few times 8 * 2^-24.
  for (Activation activation : all_activations) {
    std::vector<float> xs = points(8.0f);
    std::vector<float> ys = map_points(xs, [&](auto x) { return activate(activation, x); });
    std::vector<float> gs =
        map_points(xs, [&](auto x) { return activation_gradient(activation, decltype(x){} + 1, x); });
    for (size_t i = 0; i < xs.size(); ++i) {
      ASSERT_NEAR(ys[i], activate(activation, double(xs[i])), 2e-6) << int(activation) << " at " << xs[i];
      ASSERT_NEAR(gs[i], activation_gradient(activation, 1.0, double(xs[i])), 2e-6)
          << int(activation) << " at " << xs[i];
    }
  }
}

}  // namespace
}  // namespace reprise::kernels
