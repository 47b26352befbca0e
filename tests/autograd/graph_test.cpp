// Names of operations, the graph as text, and hooks on several gradients.
#include "reprise/autograd/functional/graph.h"

#include <gtest/gtest.h>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/recompute/checkpoint.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise::autograd {
namespace {

using testing::expect_error;
using testing::same_bits;
using testing::test_device;

Tensor leaf(const Shape& shape, double value = 1) {
  Tensor x = full(shape, value, DType::f32, test_device());
  x.set_requires_grad();
  return x;
}

TEST(Graph, NamesTheOperationThatMadeATensor) {
  const Tensor w = leaf({3, 4}), x = leaf({2, 4});
  EXPECT_EQ(grad_fn_name(x), "");
  EXPECT_EQ(grad_fn_name(linear(x, w)), "linear");
  EXPECT_EQ(grad_fn_name(linear(x, w).detach()), "");
  NoGrad unrecorded;
  EXPECT_EQ(grad_fn_name(linear(x, w)), "");
}

TEST(Graph, IsWrittenOnceWhereItIsShared) {
  const Tensor w = leaf({3, 4}), x = leaf({2, 4});
  const Tensor y = linear(x, w);
  EXPECT_EQ(graph_to_string(square(y) + y),
            "add\n"
            "  square\n"
            "    linear\n"
            "      leaf (2, 4) f32\n"
            "      leaf (3, 4) f32\n"
            "  linear (above)\n");
  EXPECT_EQ(graph_to_string(square(y), 1), "square\n  ...\n");
  EXPECT_EQ(graph_to_string(x), "leaf (2, 4) f32\n");
  expect_error([&] { graph_to_string(x.detach()); }, {"graph_to_string: the tensor requires no gradient"});
  Tensor deep = x;
  for (int i = 0; i < 100'000; ++i) deep = deep * 1.0;
  EXPECT_GT(graph_to_string(deep, 10).size(), 30u);
}

TEST(MultiGradHook, IsCalledOnceAPassWithAllGradients) {
  const Tensor a = leaf({2}, 3), b = leaf({2}, 5);
  const Tensor product = a * b;
  std::vector<TensorList> seen;
  const auto remove = register_multi_grad_hook(
      {b, product, a}, [&](const TensorList& gradients) { seen.push_back(gradients); });
  const Tensor loss = sum(square(product));
  loss.backward({}, true);
  ASSERT_EQ(seen.size(), 1u);  // d = 2 a b: of b d a, of the product d, of a d b
  EXPECT_EQ(seen[0][0].to_vector<float>(), (std::vector<float>{90, 90}));
  EXPECT_EQ(seen[0][1].to_vector<float>(), (std::vector<float>{30, 30}));
  EXPECT_EQ(seen[0][2].to_vector<float>(), (std::vector<float>{150, 150}));
  EXPECT_TRUE(same_bits(a.grad(), seen[0][2]));
  sum(a).backward();  // of a or b alone: the next pass begins anew
  sum(b).backward();
  EXPECT_EQ(seen.size(), 1u);
  loss.backward({}, true);
  ASSERT_EQ(seen.size(), 2u);
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(seen[1][i], seen[0][i])) << i;
  remove();
  loss.backward();
  EXPECT_EQ(seen.size(), 2u);
}

TEST(MultiGradHook, SeesGradientsBehindARegionThatIsPlayedAgain) {
  const Tensor a = leaf({2}, 3), w = leaf({2}, 5);
  int calls = 0;
  register_multi_grad_hook({a, w}, [&](const TensorList& gradients) {
    ++calls;
    EXPECT_EQ(gradients[0].to_vector<float>(), (std::vector<float>{30 * 5, 30 * 5}));
    EXPECT_EQ(gradients[1].to_vector<float>(), (std::vector<float>{30 * 3, 30 * 3}));
  });
  sum(square(checkpoint([&](const Tensor& x) { return x * w; }, a))).backward();
  EXPECT_EQ(calls, 1);
}

TEST(MultiGradHook, RefusesWhatHasNoGradient) {
  const Tensor a = leaf({2});
  auto none = [](const TensorList&) {};
  expect_error([&] { register_multi_grad_hook({}, none); }, {"register_multi_grad_hook: no tensors"});
  expect_error([&] { register_multi_grad_hook({a, a.detach()}, none); }, {"does not require grad"});
  expect_error([&] { register_multi_grad_hook({a, Tensor()}, none); }, {"is undefined"});
  expect_error([&] { register_multi_grad_hook({a}, {}); }, {"the hook is empty"});
}

TEST(AnyGradHook, IsCalledOnceAPassWithTheFirstGradient) {
  const Tensor a = leaf({2}, 3), b = leaf({2}, 5), other = leaf({2}, 1);
  const Tensor product = a * b;
  std::vector<Tensor> seen;
  const auto remove =
      register_any_grad_hook({b, product, a}, [&](const Tensor& gradient) { seen.push_back(gradient); });
  const Tensor loss = sum(square(product));
  loss.backward({}, true);
  ASSERT_EQ(seen.size(), 1u);  // the product stands before its factors on the way back: 2 a b
  EXPECT_EQ(seen[0].to_vector<float>(), (std::vector<float>{30, 30}));
  EXPECT_EQ(a.grad().to_vector<float>(), (std::vector<float>{150, 150}));
  sum(a * 7.0).backward();  // one of them is enough
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[1].to_vector<float>(), (std::vector<float>{7, 7}));
  sum(other).backward();
  EXPECT_EQ(seen.size(), 2u);
  remove();
  loss.backward();
  EXPECT_EQ(seen.size(), 2u);
  expect_error([&] { register_any_grad_hook({}, [](const Tensor&) {}); },
               {"register_any_grad_hook: no tensors"});
  expect_error([&] { register_any_grad_hook({a, Tensor()}, [](const Tensor&) {}); }, {"is undefined"});
}

}  // namespace
}  // namespace reprise::autograd
