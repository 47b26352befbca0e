// Hooks on leaves, on intermediate tensors and after accumulation; retained gradients.
#include "reprise/autograd/engine.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/meta.h"
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/compare.h"

namespace reprise {
namespace {

using testing::expect_error;

Tensor leaf(double value) { return Tensor::from<double>({value}, {1}).set_requires_grad(); }

TEST(Hooks, RunInTheOrderTheyWereAddedEachSeeingWhatTheLastLeft) {
  for (bool on_leaf : {true, false}) {
    Tensor x = leaf(3), y = x * 1.0;
    const Tensor& hooked = on_leaf ? x : y;
    std::vector<double> seen;
    hooked.register_hook([&](const Tensor& dy) { return seen.push_back(dy.item()), dy * 2.0; });
    hooked.register_hook([&](const Tensor& dy) { return seen.push_back(dy.item()), dy + 1.0; });
    hooked.register_hook([&](const Tensor& dy) { return seen.push_back(dy.item()), Tensor(); });
    (y * 5.0).backward();
    EXPECT_EQ(seen, (std::vector<double>{5, 10, 11}));
    EXPECT_EQ(x.grad().item(), 11);
  }
}

TEST(Hooks, AreRemovedByTheirHandleEvenTwiceOrAfterTheTensorIsGone) {
  std::function<void()> remove;
  {
    Tensor x = leaf(3);
    int first = 0, second = 0;
    remove = x.register_hook([&](const Tensor&) { return ++first, Tensor(); });
    x.register_hook([&](const Tensor&) { return ++second, Tensor(); });
    remove();
    remove();
    square(x).backward();
    EXPECT_EQ(first, 0);
    EXPECT_EQ(second, 1);
  }
  remove();
}

TEST(Hooks, MayRemoveThemselvesWhileTheyRun) {
  Tensor x = leaf(3);
  int tensor_calls = 0, post_calls = 0;
  std::function<void()> remove_tensor, remove_post;
  remove_tensor = x.register_hook([&](const Tensor&) { return ++tensor_calls, remove_tensor(), Tensor(); });
  remove_post = autograd::register_post_accumulate_hook(x, [&] {
    ++post_calls;
    remove_post();
  });
  square(x).backward();
  square(x).backward();
  EXPECT_EQ(tensor_calls, 1);
  EXPECT_EQ(post_calls, 1);
}

TEST(Hooks, AreNotCopiedByDetachOrViews) {
  Tensor x = leaf(3);
  int calls = 0;
  x.register_hook([&](const Tensor&) { return ++calls, Tensor(); });
  square(x.detach().set_requires_grad()).backward();
  EXPECT_EQ(calls, 0);
}

TEST(Hooks, ThatThrowLeaveTheLeafUntouched) {
  Tensor x = leaf(3);
  auto remove = x.register_hook([](const Tensor&) -> Tensor { fail("hook: no"); });
  expect_error([&] { square(x).backward(); }, {"hook: no"});
  EXPECT_FALSE(x.grad().defined());
  remove();
  square(x).backward();
  EXPECT_EQ(x.grad().item(), 6);
}

TEST(Hooks, NeedATensorThatRequiresGrad) {
  expect_error([] { zeros({1}).register_hook([](const Tensor&) { return Tensor(); }); },
               {"register_hook", "require grad"});
  expect_error([] { zeros({1}).retain_grad(); }, {"retain_grad", "require grad"});
  expect_error([] { autograd::register_post_accumulate_hook(leaf(1) * 2.0, [] {}); },
               {"register_post_accumulate_hook", "leaf"});
}

TEST(PostAccumulateHooks, RunOnceAPassWithTheWholeGradient) {
  Tensor x = leaf(3);
  std::vector<double> seen;
  autograd::register_post_accumulate_hook(x, [&] { seen.push_back(x.grad().item()); });
  (square(x) + x * 2.0 + x).backward();
  EXPECT_EQ(seen, (std::vector<double>{9}));
  x.backward();
  EXPECT_EQ(seen, (std::vector<double>{9, 10}));
}

TEST(PostAccumulateHooks, RunAsSoonAsTheirLeafIsDone) {
  Tensor first = leaf(2), second = leaf(3);
  std::vector<int> order;
  autograd::register_post_accumulate_hook(first, [&] { order.push_back(1); });
  autograd::register_post_accumulate_hook(second, [&] { order.push_back(2); });
  Tensor hidden = first * 2.0;
  hidden.register_hook([&](const Tensor&) { return order.push_back(0), Tensor(); });
  (hidden * second).backward();
  EXPECT_EQ(order, (std::vector<int>{2, 0, 1}));  // overlap needs the last layer's gradient first
}

TEST(RetainGrad, KeepsTheGradientOfAnIntermediateAfterItsHooks) {
  Tensor x = leaf(3), y = x * 2.0;
  y.retain_grad();
  y.register_hook([](const Tensor& dy) { return dy * 10.0; });
  square(y).backward();
  EXPECT_EQ(y.grad().item(), 120);
  EXPECT_EQ(x.grad().item(), 240);
  x.retain_grad();  // a leaf keeps its gradient anyway
}

TEST(RetainGrad, HoldsAValueThatLaterSumsDoNotChange) {
  Tensor x = leaf(3), y = x * 1.0, z = y * 1.0;
  z.retain_grad();
  (z + y * 4.0).backward();  // the gradient of z is summed into that of y
  EXPECT_EQ(z.grad().item(), 1);
  EXPECT_EQ(x.grad().item(), 5);
}

TEST(RetainGrad, TwiceIsOnce) {
  Tensor x = leaf(3), y = x * 2.0, view = y.reshape({1, 1});
  Tensor handle = y;
  for (int times = 0; times < 3; ++times) {
    y.retain_grad();
    handle.retain_grad();
    view.retain_grad();
  }
  Tensor z = y + view.reshape({1});
  for (int pass = 1; pass < 4; ++pass) {
    z.backward({}, /*retain_graph=*/true);
    EXPECT_EQ(y.grad().item(), 2 * pass);
    EXPECT_EQ(view.grad().item(), pass);
  }
}

TEST(RetainGrad, KeepsAGradientOfItsOwn) {
  Tensor x = Tensor::from<double>({1, 2}, {2}).set_requires_grad(), y = x * 1.0, z = y + 0.0;
  y.retain_grad();
  z.retain_grad();
  z.sum().backward();  // the gradient of a sum is expanded, and passes through z to y
  z.grad().mul_(5);
  EXPECT_EQ(z.grad().to_vector<double>(), (std::vector<double>{5, 5}));
  EXPECT_EQ(y.grad().to_vector<double>(), (std::vector<double>{1, 1}));
}

TEST(Hooks, RegisteredTwiceRunTwice) {
  Tensor x = leaf(3);
  auto twice = [](const Tensor& dy) { return dy * 2.0; };
  x.register_hook(twice);
  x.register_hook(twice);
  x.backward();
  EXPECT_EQ(x.grad().item(), 4);
}

TEST(Hooks, ThatChangeTheirGradientInPlaceAreErrors) {
  for (bool on_leaf : {true, false}) {
    Tensor a = leaf(3), b = leaf(4), c = square(a);
    (on_leaf ? a : c).register_hook([](const Tensor& dy) { return dy.mul_(2), Tensor(); });
    expect_error([&] { (c + b).backward(); }, {on_leaf ? "accumulate_grad" : "square", "hook", "in place"});
  }
}

TEST(Hooks, MayRunBackwardOnAnotherGraph) {
  Tensor x = leaf(3), other = leaf(5);
  x.register_hook([&](const Tensor&) {
    EnableGrad recording;
    square(other).backward();
    return Tensor();
  });
  square(x).backward();
  EXPECT_EQ(x.grad().item(), 6);
  EXPECT_EQ(other.grad().item(), 10);
}

}  // namespace
}  // namespace reprise
