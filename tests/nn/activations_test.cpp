// Activations as layers, against their formulas.
#include "reprise/nn/activations.h"

#include <cmath>

#include "reprise/tests/support/compare.h"

namespace reprise::nn {
namespace {

using testing::expect_error;
using testing::is_close;
using testing::same_bits;

void expect_each(Layer&& layer, double (*formula)(double)) {
  const std::vector<double> in{-3, -0.5, 0.25, 2};
  std::vector<double> want;
  for (double x : in) want.push_back(formula(x));
  const Tensor y = layer(Tensor::from(in, {2, 2}));
  EXPECT_TRUE(is_close(y.to_vector<double>(), want, 1e-14)) << layer.class_name();
  EXPECT_EQ(layer.parameter_count(), 0);
}

TEST(Activations, AreTheirFormulas) {
  expect_each(Tanh(), [](double x) { return std::tanh(x); });
  expect_each(Sigmoid(), [](double x) { return 1 / (1 + std::exp(-x)); });
  expect_each(ReLU(), [](double x) { return std::fmax(x, 0); });
  expect_each(GELU(), [](double x) { return x * std::erfc(-x / std::sqrt(2)) / 2; });
  expect_each(SiLU(), [](double x) { return x / (1 + std::exp(-x)); });
  expect_each(ELU(), [](double x) { return x > 0 ? x : std::expm1(x); });
  expect_each(ELU(0.5), [](double x) { return x > 0 ? x : std::expm1(x) / 2; });
  expect_each(LeakyReLU(), [](double x) { return x > 0 ? x : 0.01 * x; });
  expect_each(LeakyReLU(0.25), [](double x) { return x > 0 ? x : 0.25 * x; });
  expect_each(Softplus(), [](double x) { return std::log1p(std::exp(x)); });
  expect_each(Softplus(4), [](double x) { return std::log1p(std::exp(4 * x)) / 4; });
}

TEST(Activations, SoftplusIsItsInputFarOut) {
  const Tensor x = Tensor::from<double>({19, 25}, {2});
  const std::vector<double> y = Softplus()(x).to_vector<double>();
  EXPECT_GT(y[0], 19);
  EXPECT_EQ(y[1], 25);
}

TEST(Activations, OfADimensionTakeItFromTheEndToo) {
  const Tensor x = randn({2, 3, 5}, DType::f64);
  EXPECT_TRUE(is_close(Softmax(1)(x), exp(x) / sum(exp(x), {1}, true), 1e-14));
  EXPECT_TRUE(same_bits(Softmax(-2)(x), Softmax(1)(x)));
  EXPECT_TRUE(is_close(LogSoftmax(0)(x), x - log(sum(exp(x), {0}, true)), 1e-14));
}

TEST(Activations, AreLayersOfASequential) {
  Sequential net;
  net.add<ELU>(2);
  net.add<LogSoftmax>(-1);
  EXPECT_EQ(net[0].class_name(), "ELU");
  EXPECT_EQ(net[1].class_name(), "LogSoftmax");
  const Tensor x = randn({3, 4});
  EXPECT_TRUE(same_bits(net(x), log_softmax(elu(x, 2))));
  expect_error([] { Softplus(0); }, {"Softplus: beta is 0, should be above 0"});
}

}  // namespace
}  // namespace reprise::nn
