// Small layers against plain f64 loops, and the statistics of the random ones.
#include "reprise/nn/layers.h"

#include <cmath>

#include "reprise/nn/linear.h"
#include "reprise/tests/nn/small_models.h"
#include "reprise/tests/support/compare.h"

namespace reprise::nn {
namespace {

using testing::expect_error;
using testing::is_close;
using testing::random_input;
using testing::randomize;
using testing::same_bits;

using Doubles = std::vector<double>;

// Sums of at most 15 products of f32 numbers near 1, rounded in f32: a few of its 6e-8.
constexpr double kTolerance = 1e-6;

Doubles values(const Tensor& x) { return x.detach().to_vector<double>(); }

TEST(Linear, IsTheAffineMapOfItsRows) {
  for (bool bias : {true, false}) {
    Linear layer(5, 3, {.bias = bias});
    randomize(layer);
    EXPECT_EQ(layer.weight.shape(), (Shape{3, 5}));
    EXPECT_EQ(layer.bias.defined(), bias);
    Tensor x = random_input({2, 7, 5});
    Doubles in = values(x), w = values(layer.weight), b = bias ? values(layer.bias) : Doubles(3), want;
    for (size_t row = 0; row < 14; ++row)
      for (size_t o = 0; o < 3; ++o) {
        double sum = b[o];
        for (size_t i = 0; i < 5; ++i) sum += in[row * 5 + i] * w[o * 5 + i];
        want.push_back(sum);
      }
    Tensor y = layer(x);
    EXPECT_EQ(y.shape(), (Shape{2, 7, 3}));
    EXPECT_TRUE(is_close(values(y), want, kTolerance));
  }
}

TEST(Linear, FusesActivationAndResidual) {
  Linear layer(5, 3);
  randomize(layer);
  Tensor x = random_input({7, 5}), residual = random_input({7, 3}, 4);
  Tensor plain = layer(x);
  Tensor fused = layer.forward(x, {.activation = Activation::relu, .residual = residual});
  EXPECT_TRUE(is_close(values(fused), values(relu(plain) + residual), kTolerance));
}

TEST(Norm, IsTheLayerOfItsKind) {
  Tensor x = random_input({3, 5}), residual = random_input({3, 5}, 4);
  LayerNorm layer(5, {.eps = 0.1});
  RmsNorm rms(5, {.eps = 0.1});
  Norm as_layer(NormKind::layer, 5, {.eps = 0.1}), as_rms(NormKind::rms, 5, {.eps = 0.1});
  EXPECT_EQ(as_layer.state_dict().size(), 2u);
  EXPECT_EQ(as_rms.state_dict().size(), 1u);
  EXPECT_TRUE(same_bits(as_layer(x).detach(), layer(x).detach()));
  EXPECT_TRUE(same_bits(as_rms(x).detach(), rms(x).detach()));
  EXPECT_TRUE(same_bits(as_layer.add(x, residual).norm.detach(), layer.add(x, residual).norm.detach()));
  EXPECT_TRUE(same_bits(as_rms.add(x, residual).norm.detach(), rms.add(x, residual).norm.detach()));
}

// The largest of n uniform numbers in (0, 1) is below 1 - 20 / n once in e^20.
void expect_uniform(const Tensor& x, double bound) {
  Doubles v = values(x);
  double largest = 0, sum = 0, squares = 0, n = double(v.size());
  for (double value : v) {
    largest = std::max(largest, std::fabs(value));
    sum += value;
    squares += value * value;
  }
  EXPECT_LE(largest, bound);
  EXPECT_GE(largest, bound * (1 - 20 / n));
  EXPECT_NEAR(sum / n, 0, 5 * bound / std::sqrt(3 * n));                      // 5 deviations of the mean
  EXPECT_NEAR(squares / n, bound * bound / 3, bound * bound / std::sqrt(n));  // > 3 deviations
}

TEST(Linear, StartsAsPyTorchDoes) {
  manual_seed(1);
  Linear layer(64, 50);
  expect_uniform(layer.weight, 1 / std::sqrt(64.0));
  Linear narrow(4, 3000);
  expect_uniform(narrow.bias, 0.5);
}

TEST(Linear, StartsNormalWithZeroBiasOnRequest) {
  manual_seed(1);
  Linear layer(100, 99, {.init_stddev = 0.02});
  double squares = 0;
  for (double value : values(layer.weight)) squares += value * value;
  EXPECT_NEAR(std::sqrt(squares / 9900), 0.02, 0.02 * 5 / std::sqrt(2 * 9900.0));  // 5 deviations
  EXPECT_EQ(values(layer.bias), Doubles(99));
}

TEST(Layers, RefuseSizesAndProbabilitiesOutOfRange) {
  expect_error([] { Linear(0, 3); }, {"Linear", "0"});
  expect_error([] { Linear(3, -1); }, {"Linear", "-1"});
  expect_error([] { Embedding(0, 3); }, {"Embedding", "0"});
  for (double p : {-0.1, 1.0, double(NAN)}) {
    expect_error([p] { Dropout layer(p); }, {"Dropout", "[0, 1)"});
    expect_error([p] { DropPath layer(p); }, {"DropPath", "[0, 1)"});
  }
}

TEST(Embedding, LooksUpRowsAndSumsTheirGradients) {
  Embedding table(7, 3);
  randomize(table);
  Tensor indices = Tensor::from<int64_t>({6, 0, 2, 2}, {2, 2});
  Tensor y = table(indices);
  EXPECT_EQ(y.shape(), (Shape{2, 2, 3}));
  Doubles w = values(table.weight), got = values(y);
  std::vector<size_t> rows = {6, 0, 2, 2};
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(got[i], w[rows[i / 3] * 3 + i % 3]);
  y.sum().backward();
  Doubles want(21);
  for (size_t i = 0; i < 12; ++i) want[rows[i / 3] * 3 + i % 3] += 1;
  EXPECT_EQ(values(table.weight.grad()), want);
  expect_error([&] { table(Tensor::from<int64_t>({1, 7}, {2})); }, {"embedding", "7"});
}

TEST(Embedding, StartsNormal) {
  manual_seed(1);
  Embedding table(100, 99, {.init_stddev = 0.5});
  double squares = 0, sum = 0;
  for (double value : values(table.weight)) squares += value * value, sum += value;
  EXPECT_NEAR(std::sqrt(squares / 9900), 0.5, 0.5 * 5 / std::sqrt(2 * 9900.0));  // 5 deviations
  EXPECT_NEAR(sum / 9900, 0, 0.5 * 5 / std::sqrt(9900.0));
}

TEST(LayerNorm, NormalisesRowsThenScalesAndShifts) {
  for (bool bias : {true, false}) {
    constexpr double eps = 0.3;  // large, so that a forgotten one shows
    LayerNorm layer(7, {.eps = eps, .bias = bias});
    EXPECT_EQ(values(layer.weight), Doubles(7, 1));
    EXPECT_EQ(layer.bias.defined(), bias);
    if (bias) { EXPECT_EQ(values(layer.bias), Doubles(7, 0)); }
    randomize(layer);
    Tensor x = random_input({2, 3, 7});
    Doubles in = values(x), w = values(layer.weight), b = bias ? values(layer.bias) : Doubles(7), want;
    for (size_t row = 0; row < 6; ++row) {
      double mean = 0, var = 0;
      for (size_t i = 0; i < 7; ++i) mean += in[row * 7 + i] / 7;
      for (size_t i = 0; i < 7; ++i) var += std::pow(in[row * 7 + i] - mean, 2) / 7;
      for (size_t i = 0; i < 7; ++i)
        want.push_back((in[row * 7 + i] - mean) / std::sqrt(var + eps) * w[i] + b[i]);
    }
    EXPECT_TRUE(is_close(values(layer(x)), want, kTolerance));
  }
}

TEST(RmsNorm, DividesRowsByTheirRootMeanSquare) {
  constexpr double eps = 0.3;
  RmsNorm layer(7, {.eps = eps});
  EXPECT_EQ(values(layer.weight), Doubles(7, 1));
  randomize(layer);
  Tensor x = random_input({5, 7});
  Doubles in = values(x), w = values(layer.weight), want;
  for (size_t row = 0; row < 5; ++row) {
    double squares = 0;
    for (size_t i = 0; i < 7; ++i) squares += in[row * 7 + i] * in[row * 7 + i] / 7;
    for (size_t i = 0; i < 7; ++i) want.push_back(in[row * 7 + i] / std::sqrt(squares + eps) * w[i]);
  }
  EXPECT_TRUE(is_close(values(layer(x)), want, kTolerance));
}

TEST(Dropout, DropsTheGivenPartAndKeepsTheMean) {
  Generator generator(1);
  Dropout layer(0.3, {.generator = &generator});
  constexpr size_t count = 20000;
  Doubles y = values(layer(ones({int64_t(count)})));
  size_t kept = 0;
  for (double value : y) {
    if (value != 0) { EXPECT_FLOAT_EQ(float(value), float(1 / 0.7)); }
    kept += value != 0;
  }
  EXPECT_NEAR(double(kept) / count, 0.7, 5 * std::sqrt(0.3 * 0.7 / count));  // 5 deviations
}

TEST(Dropout, IsTheIdentityOutsideTrainingAndDrawsNothing) {
  Generator generator(1);
  Dropout layer(0.3, {.generator = &generator});
  layer.eval();
  Tensor x = random_input({3, 5});
  EXPECT_TRUE(same_bits(layer(x), x));
  EXPECT_EQ(generator.state().offset, 0u);
  layer.train();
  EXPECT_FALSE(same_bits(layer(x), x));
  EXPECT_EQ(generator.state().offset, 1u);
}

TEST(DropPath, KeepsOrDropsWholeSamplesAndScalesTheKept) {
  Generator generator(5);
  DropPath layer(0.25, {.generator = &generator});
  constexpr size_t samples = 4000, width = 6;
  Tensor x = random_input({int64_t(samples), 2, 3});
  x.set_requires_grad();
  Tensor y = layer(x);
  y.sum().backward();
  Doubles in = values(x), out = values(y), dx = values(x.grad());
  size_t kept = 0;
  for (size_t s = 0; s < samples; ++s) {
    bool here = dx[s * width] != 0;
    kept += here;
    for (size_t i = s * width; i < (s + 1) * width; ++i) {
      ASSERT_FLOAT_EQ(float(out[i]), float(here ? in[i] / 0.75 : 0)) << "sample " << s;
      ASSERT_FLOAT_EQ(float(dx[i]), float(here ? 1 / 0.75 : 0)) << "sample " << s;
    }
  }
  // 5 deviations; the kept share times 1 / 0.75 then is 1: the expectation is x.
  EXPECT_NEAR(double(kept) / samples, 0.75, 5 * std::sqrt(0.25 * 0.75 / samples));
}

TEST(DropPath, IsTheIdentityOutsideTrainingAndWithoutProbability) {
  Generator generator(5);
  DropPath layer(0.25, {.generator = &generator}), never(0, {.generator = &generator});
  Tensor x = random_input({3, 5});
  EXPECT_TRUE(same_bits(never(x), x));
  layer.eval();
  EXPECT_TRUE(same_bits(layer(x), x));
  EXPECT_EQ(generator.state().offset, 0u);
}

TEST(Sequential, AppliesItsLayersInOrderAndNamesThemByPlace) {
  Sequential net;
  Linear& first = net.add<Linear>(3, 5);
  net.add<Activate>(Activation::relu);
  Linear& last = net.add<Linear>(5, 2, LinearOptions{.bias = false});
  randomize(net);
  Tensor x = random_input({7, 3});
  EXPECT_TRUE(same_bits(net(x).detach(), last(relu(first(x))).detach()));
  EXPECT_EQ(net.size(), 3);
  EXPECT_EQ(&net[2], &last);
  auto names = net.named_parameters();
  ASSERT_EQ(names.size(), 3u);
  EXPECT_EQ(names[0].first, "0.weight");
  EXPECT_EQ(names[1].first, "0.bias");
  EXPECT_EQ(names[2].first, "2.weight");
  net.eval();
  EXPECT_FALSE(first.training());
}

TEST(Sequential, WithoutLayersIsTheIdentity) {
  Sequential net;
  Tensor x = random_input({2, 3});
  EXPECT_TRUE(same_bits(net(x), x));
}

TEST(GroupNorm, NormalisesGroupsOfChannelsAndScalesChannels) {
  GroupNorm layer(2, 4);
  randomize(layer);
  Tensor x = random_input({3, 4, 5});
  Doubles in = values(x), w = values(layer.weight), b = values(layer.bias), want(in.size());
  for (size_t group = 0; group < 6; ++group) {  // of 2 channels, 10 numbers
    double mean = 0, variance = 0;
    for (size_t i = 0; i < 10; ++i) mean += in[group * 10 + i] / 10;
    for (size_t i = 0; i < 10; ++i) variance += std::pow(in[group * 10 + i] - mean, 2) / 10;
    for (size_t i = 0; i < 10; ++i) {
      const size_t channel = group % 2 * 2 + i / 5;
      want[group * 10 + i] =
          (in[group * 10 + i] - mean) / std::sqrt(variance + 1e-5) * w[channel] + b[channel];
    }
  }
  EXPECT_TRUE(is_close(values(layer(x)), want, kTolerance));
  EXPECT_FALSE(GroupNorm(2, 4, {.affine = false}).weight.defined());
  expect_error([] { GroupNorm(3, 4); }, {"GroupNorm", "4 channels", "3 groups"});
}

TEST(LayerScale, MultipliesChannels) {
  LayerScale layer(3, 0.25);
  EXPECT_EQ(values(layer.gamma), (Doubles{0.25, 0.25, 0.25}));
  layer.gamma.detach().copy_(Tensor::from<float>({1, 2, 4}, {3}));
  Tensor y = layer(Tensor::from<float>({1, 1, 1, 3, 5, 7}, {2, 3}));
  EXPECT_EQ(values(y), (Doubles{1, 2, 4, 3, 10, 28}));
  expect_error([] { LayerScale(0, 1); }, {"LayerScale", "0"});
}

TEST(Sequential, TakesFunctionsAndLayersThatDoLittle) {
  Sequential net;
  Layer& scaled = net.add([](const Tensor& x) { return x * 3; });
  net.add<Identity>();
  net.add<Flatten>();
  const Tensor x = Tensor::from<float>({1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2});
  EXPECT_EQ(net(x).shape(), (Shape{2, 4}));
  EXPECT_EQ(net(x).to_vector<float>(), (std::vector<float>{3, 6, 9, 12, 15, 18, 21, 24}));
  EXPECT_EQ(&net[0], &scaled);
  EXPECT_EQ(net.at<Lambda>("0").class_name(), "Lambda");
  EXPECT_TRUE(net.parameters().empty());
  testing::expect_error([&] { net.add(std::function<Tensor(const Tensor&)>()); },
                        "Lambda: the function is empty");
  testing::expect_error([&] { net[3]; }, "no module \"3\"");
}

}  // namespace
}  // namespace reprise::nn
