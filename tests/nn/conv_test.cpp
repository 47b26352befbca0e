// The convolutional layer: its shapes, its names, its training.
#include "reprise/nn/conv.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reprise/autograd/grad_mode.h"
#include "reprise/tests/support/compare.h"

namespace reprise::nn {
namespace {

using testing::expect_error;
using testing::is_close;

TEST(Conv2d, HasTheShapesAndNamesOfPyTorch) {
  Conv2d layer(6, 4, {3, 2}, {.stride = 2, .padding = {1, 0}, .groups = 2});
  EXPECT_EQ(layer.weight.shape(), (Shape{4, 3, 3, 2}));
  EXPECT_EQ(layer.bias.shape(), (Shape{4}));
  EXPECT_EQ(layer.named_parameters().size(), 2u);
  EXPECT_EQ(layer(zeros({2, 6, 7, 8})).shape(), (Shape{2, 4, 4, 4}));
  Conv2d plain(3, 8, 1, {.bias = false});
  EXPECT_FALSE(plain.bias.defined());
  EXPECT_EQ(plain(zeros({1, 3, 5, 5})).shape(), (Shape{1, 8, 5, 5}));
}

TEST(ConvTranspose2d, HasTheShapesNamesAndStartOfPyTorch) {
  manual_seed(3);
  ConvTranspose2d layer(16, 6, {3, 2}, {.stride = {3, 2}});
  EXPECT_EQ(layer.weight.shape(), (Shape{16, 6, 3, 2}));
  EXPECT_EQ(layer.bias.shape(), (Shape{6}));
  EXPECT_EQ(layer(zeros({2, 16, 4, 5})).shape(), (Shape{2, 6, 12, 10}));
  EXPECT_EQ(layer.named_parameters().size(), 2u);
  EXPECT_FALSE(ConvTranspose2d(3, 8, 2, {.bias = false}).bias.defined());
  const double bound = 1 / std::sqrt(6.0 * 6);  // PyTorch takes the outputs for inputs here
  double largest = 0;
  for (double value : layer.weight.to_vector<double>()) largest = std::max(largest, std::abs(value));
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0.95 * bound);
  expect_error([] { ConvTranspose2d(3, 0, 2); }, {"ConvTranspose2d", "3 and 0", "(2, 2)"});
}

TEST(Conv2d, StartsWithinTheBoundsOfItsFanIn) {
  manual_seed(3);
  Conv2d layer(16, 32, 3);
  const double bound = 1 / std::sqrt(16.0 * 9);
  double largest = 0;
  for (double value : layer.weight.to_vector<double>()) largest = std::max(largest, std::abs(value));
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0.95 * bound);
}

TEST(Conv2d, OfPatchesIsALinearLayerOnThem) {
  manual_seed(5);
  Conv2d layer(2, 5, {2, 3}, {.stride = {2, 3}});
  Tensor x = randn({3, 2, 4, 6});
  Tensor patches = reshape(permute(reshape(x, {3, 2, 2, 2, 2, 3}), {0, 2, 4, 1, 3, 5}), {3, 4, 12});
  Tensor want = linear(patches, reshape(layer.weight, {5, 12}), layer.bias);  // (N, patches, out)
  Tensor got = transpose(reshape(layer(x), {3, 5, 4}), 1, 2);
  EXPECT_TRUE(is_close(got, want, 1e-5));
}

TEST(Conv2d, LearnsAnEdgeDetector) {
  manual_seed(7);
  Conv2d layer(1, 1, 3, {.padding = 1});
  Tensor x = randn({8, 1, 9, 9});
  Tensor edges = Tensor::from<float>({-1, 0, 1, -2, 0, 2, -1, 0, 1}, {1, 1, 3, 3});
  Tensor want = conv2d(x, edges, {}, {.padding = 1});
  double first = 0, last = 0;
  for (int step = 0; step < 60; ++step) {
    Tensor loss = mean(square(layer(x) - want));
    (step == 0 ? first : last) = loss.item();
    loss.backward();
    NoGrad guard;
    for (Tensor p : {layer.weight, layer.bias}) {
      p.add_(p.grad(), -0.2);
      p.set_grad({});
    }
  }
  EXPECT_LT(last, first * 1e-4) << "from " << first;
}

TEST(Conv2d, RefusesWhatDoesNotFit) {
  expect_error([] { Conv2d(0, 4, 3); }, {"Conv2d", "0 and 4"});
  expect_error([] { Conv2d(3, 4, 3, {.groups = 2}); }, {"Conv2d", "2 groups"});
  expect_error([] { Conv2d(3, 4, 0); }, {"Conv2d", "kernel"});
}

}  // namespace
}  // namespace reprise::nn
