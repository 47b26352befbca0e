// What arrives at leaves: frozen ones, gradients that were set, leaves that change, passes that meet.
#include <thread>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/meta.h"
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/compare.h"

namespace reprise {
namespace {

using testing::expect_error;
using Doubles = std::vector<double>;

Tensor leaf(const Doubles& values) {
  return Tensor::from(values, {int64_t(values.size())}).set_requires_grad();
}

TEST(AccumulateGrad, GivesNothingToALeafFrozenSinceForward) {
  for (bool create_graph : {false, true}) {
    Tensor x = leaf({2}), y = leaf({3}), product = x * y;
    int post_hooks = 0;
    autograd::register_post_accumulate_hook(x, [&] { ++post_hooks; });
    x.set_requires_grad(false);
    product.backward({}, {}, create_graph);
    EXPECT_FALSE(x.grad().defined());
    EXPECT_EQ(post_hooks, 0);
    EXPECT_EQ(y.grad().item(), 2);
    y.set_grad({});
  }
}

TEST(AccumulateGrad, AddsNothingToTheGradientOfALeafFrozenSinceForward) {
  Tensor x = leaf({2});
  x.set_grad(Tensor::from<double>({7}, {1}));
  Tensor y = x * 3.0;
  x.set_requires_grad(false);
  y.backward({}, /*retain_graph=*/true);
  EXPECT_EQ(x.grad().item(), 7);
  x.set_requires_grad();
  y.backward();
  EXPECT_EQ(x.grad().item(), 10);
}

TEST(AccumulateGrad, LosesNoGradientWhereTwoPassesUnderCreateGraphMeet) {
  for (int round = 0; round < 50; ++round) {
    Tensor x = Tensor::from(Doubles(64, 1.0), {64}).set_requires_grad();
    auto pass = [&] {
      for (int i = 0; i < 4; ++i) (x * 3.0).sum().backward({}, {}, /*create_graph=*/true);
    };
    std::thread other(pass);
    pass();
    other.join();
    EXPECT_EQ(x.grad().to_vector<double>(), Doubles(64, 24.0)) << "in round " << round;
    x.set_grad({});
  }
}

TEST(AccumulateGrad, GivesEachLeafAGradientOfItsOwn) {
  Tensor x = leaf({1, 2}), y = leaf({3, 4});
  for (int pass = 0; pass < 2; ++pass) (x + y).backward(Tensor::from<double>({1, 1}, {2}));
  EXPECT_EQ(x.grad().to_vector<double>(), Doubles(2, 2));
  EXPECT_EQ(y.grad().to_vector<double>(), Doubles(2, 2));
}

TEST(AccumulateGrad, AddingInPlaceIsAChangeOfTheGradient) {
  Tensor x = leaf({1, 2});
  (x * 2.0).sum().backward();
  uint64_t version = x.grad().version();
  (x * 2.0).sum().backward();
  EXPECT_GT(x.grad().version(), version);
}

TEST(AccumulateGrad, AddsToAnExpandedGradientElementByElement) {
  Tensor x = leaf({1, 2, 3});
  x.set_grad(Tensor::from<double>({1}, {1}).expand({3}));
  (x * Tensor::from<double>({1, 10, 100}, {3})).sum().backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (Doubles{2, 11, 101}));
}

TEST(AccumulateGrad, AddsToAGradientWhoseElementsOverlapOtherwise) {
  Tensor x = Tensor::from<double>({0, 0, 0, 0}, {2, 2}).set_requires_grad();
  Tensor line = Tensor::from<double>({1, 2, 3}, {3});
  TensorView hankel = line.view();  // 1 2, 2 3
  hankel.shape = {2, 2};
  hankel.strides = {1, 1};
  x.set_grad(line.alias(hankel));
  (x * 10.0).sum().backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (Doubles{11, 12, 12, 13}));
}

TEST(AccumulateGrad, AddsToAGradientInAnotherLayoutInPlace) {
  Tensor x = Tensor::from<double>({0, 0, 0, 0, 0, 0}, {2, 3}).set_requires_grad();
  Tensor given = Tensor::from<double>({1, 2, 3, 4, 5, 6}, {3, 2});
  x.set_grad(given.transpose(0, 1));
  x.sum().backward();
  EXPECT_EQ(given.to_vector<double>(), (Doubles{2, 3, 4, 5, 6, 7}));
}

TEST(AccumulateGrad, RefusesTheGradientOfWhatALeafWasBeforeItsDataTookAnotherForm) {
  Tensor x = leaf({1, 2, 3}), y = (x + 1.0).sum();  // keeps neither values nor a version of x
  x.set_data(Tensor::from<double>({1, 2}, {2}));
  expect_error([&] { y.backward(); }, {"backward", "set_data", "(3,)"});
  EXPECT_FALSE(x.grad().defined());
  (x * 2.0).sum().backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (Doubles{2, 2}));
}

TEST(SetGrad, RefusesWhatSharesTheTensorsMemory) {
  Tensor x = Tensor::from<double>({1, 2, 3, 4}, {2, 2}).set_requires_grad();
  expect_error([&] { x.set_grad(x); }, {"set_grad", "shares"});
  expect_error([&] { x.set_grad(x.detach()); }, {"set_grad", "shares", "clone"});
  expect_error([&] { x.set_grad(x.detach().transpose(0, 1)); }, {"set_grad", "shares"});
  Tensor empty = Tensor::zeros({0}).set_requires_grad();
  expect_error([&] { empty.set_grad(empty); }, {"set_grad", "shares"});
  Tensor flat = Tensor::zeros({8}, DType::f64), weight = flat.slice(0, 0, 4).set_requires_grad();
  weight.set_grad(flat.slice(0, 4, 8));  // one buffer for both, side by side
  weight.sum().backward();
  EXPECT_EQ(flat.to_vector<double>(), (Doubles{0, 0, 0, 0, 1, 1, 1, 1}));
}

}  // namespace
}  // namespace reprise
