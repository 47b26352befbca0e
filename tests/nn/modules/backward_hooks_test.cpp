// register_full_backward_hook: the gradients of a layer's input and result, in both modes of recompute.
#include "reprise/nn/layers.h"
#include "reprise/nn/linear.h"
#include "reprise/tests/autograd/recompute/support.h"

namespace reprise::nn {
namespace {

using testing::expect_error;
using testing::kModes;
using testing::leaf;
using testing::NoLeaks;
using testing::numbers;
using testing::same_bits;
using testing::test_device;

TEST(BackwardHooks, SeeTheGradientsOfInputAndResult) {
  Linear layer(4, 3, {}, test_device());
  const Tensor x = leaf({5, 4}), dy = numbers({5, 3}, 2);
  std::string order;
  Tensor seen_dx, seen_dy;
  layer.register_full_backward_hook([&](const Tensor& dx, const Tensor& of_result) {
    order += "a";
    seen_dx = dx;
    seen_dy = of_result;
    return Tensor();
  });
  auto remove = layer.register_full_backward_hook([&](const Tensor& dx, const Tensor&) {
    order += "b";
    return dx * 2.0;
  });
  const Tensor y = layer(x) + sum(x) * 0.0;  // another use of x
  y.backward(dy);
  EXPECT_EQ(order, "ab");
  const Tensor want = matmul(dy, layer.weight.detach());
  EXPECT_TRUE(same_bits(seen_dx, want) && same_bits(seen_dy, dy));
  EXPECT_TRUE(same_bits(x.grad(), want * 2.0));
  EXPECT_TRUE(same_bits(layer.bias.grad(), sum(dy, {0}))) << "parameters get their own";
  remove();
  order.clear();
  layer(x).backward(dy);
  EXPECT_EQ(order, "a");
}

TEST(BackwardHooks, OfAnInputWithoutGradientSeeTheResults) {
  Linear layer(4, 3, {}, test_device());
  int calls = 0;
  auto remove = layer.register_full_backward_hook([&](const Tensor& dx, const Tensor& dy) {
    ++calls;
    EXPECT_FALSE(dx.defined());
    EXPECT_TRUE(same_bits(dy, ones_like(dy)));
    return Tensor();
  });
  sum(layer(numbers({5, 4}))).backward();
  EXPECT_EQ(calls, 1);
  remove();
  layer.register_full_backward_hook([](const Tensor&, const Tensor& dy) { return dy; });
  expect_error(
      [&] {
        sum(layer(numbers({5, 4}))).backward();
      },
      {"register_full_backward_hook", "requires none"});
  NoGrad guard;
  layer(leaf({5, 4}));
}

TEST(BackwardHooks, SurroundForwardHooksAndLayersThatReturnTheirInput) {
  Identity layer;
  std::vector<double> seen;
  layer.register_forward_pre_hook([](const Tensor& x) { return x * 3.0; });
  layer.register_forward_hook([](const Tensor&, const Tensor& y) { return y * 5.0; });
  layer.register_full_backward_hook([&](const Tensor& dx, const Tensor& dy) {
    seen = {sum(dx).item(), sum(dy).item()};
    return Tensor();
  });
  const Tensor x = Tensor::from<float>({1}, {1}).to(test_device()).set_requires_grad();
  (layer(x) * 7.0).backward();
  EXPECT_EQ(seen, (std::vector<double>{35, 7}));
  EXPECT_EQ(x.grad().item(), 105);
  Identity plain;
  plain.register_full_backward_hook([&](const Tensor& dx, const Tensor& dy) {
    seen = {dx.item(), dy.item()};
    return dx * 2.0;
  });
  (plain(x) * 7.0).backward();
  EXPECT_EQ(seen, (std::vector<double>{7, 7}));
  EXPECT_EQ(x.grad().item(), 105 + 14);
}

// In a region, around one, and with the first run's hooks and the replay's.
TEST(BackwardHooks, RunOnceAPassUnderRecompute) {
  for (const CheckpointMode mode : kModes)
    for (const bool around : {false, true}) {
      NoLeaks guard;
      Linear layer(4, 4, {}, test_device());
      const Tensor x = leaf({5, 4}), twin = leaf({5, 4});
      std::vector<Tensor> seen;
      auto hook = [&](const Tensor& dx, const Tensor& dy) {
        seen.push_back(dx);
        seen.push_back(dy);
        return dx * 2.0;
      };
      layer.register_full_backward_hook(hook);
      sum(square(tanh(layer(tanh(twin))))).backward();
      const std::vector<Tensor> want = std::exchange(seen, {});
      ASSERT_EQ(want.size(), 2u);
      const Tensor dweight = layer.weight.grad();
      layer.zero_grad();
      Tensor y;
      if (around) {
        Lambda region([&](const Tensor& in) {
          return checkpoint([&](const Tensor& h) { return linear(h, layer.weight, layer.bias); }, in,
                            {.mode = mode});
        });
        region.register_full_backward_hook(hook);
        y = region(tanh(x));
      } else {
        y = checkpoint([&](const Tensor& in) { return layer(tanh(in)); }, x, {.mode = mode});
      }
      sum(square(tanh(y))).backward();
      ASSERT_EQ(seen.size(), 2u);
      EXPECT_TRUE(same_bits(seen[0], want[0]) && same_bits(seen[1], want[1]));
      EXPECT_TRUE(same_bits(x.grad(), twin.grad()) && same_bits(layer.weight.grad(), dweight));
      seen.clear();
    }
}

TEST(BackwardHooks, RunInEachPassAndUnderCreateGraph) {
  Linear layer(4, 1, {}, test_device());
  const Tensor x = leaf({5, 4});
  int calls = 0;
  layer.register_full_backward_hook([&](const Tensor& dx, const Tensor&) {
    ++calls;
    return dx * dx;
  });
  const Tensor y = sum(square(layer(x)));
  y.backward({}, /*retain_graph=*/true);
  y.backward({}, /*retain_graph=*/true);
  EXPECT_EQ(calls, 2);
  const Tensor dx = grad({y}, {x}, {}, {.create_graph = true})[0];
  const Tensor got = grad({sum(dx)}, {layer.weight})[0];
  Tensor w = layer.weight.detach().clone().set_requires_grad();
  const Tensor plain = grad({sum(square(linear(x, w, layer.bias)))}, {x}, {}, {.create_graph = true})[0];
  // f32, added in another order.
  EXPECT_TRUE(testing::is_close(got, grad({sum(plain * plain)}, {w})[0], 1e-5));
}

}  // namespace
}  // namespace reprise::nn
