// Gradients of gradients: Hessians by hand, Hessian-vector products of small networks by differences.
#include <cmath>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/gradcheck.h"
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/compare.h"

namespace reprise {
namespace {

using testing::is_close;

TEST(CreateGraph, GivesTheHessianOfASmallFunction) {
  // f = x^2 y + sin(x): f_xx = 2 y - sin(x), f_xy = 2 x, f_yy = 0.
  Tensor x = Tensor::from<double>({1.5}, {1}).set_requires_grad();
  Tensor y = Tensor::from<double>({-0.5}, {1}).set_requires_grad();
  Tensor f = square(x) * y + sin(x);
  TensorList first = grad({f}, {x, y}, {}, {.create_graph = true});
  TensorList of_x = grad({first[0]}, {x, y}, {}, {.retain_graph = true});
  EXPECT_NEAR(of_x[0].item(), 2 * -0.5 - std::sin(1.5), 1e-15);
  EXPECT_NEAR(of_x[1].item(), 3.0, 1e-15);
  TensorList of_y = grad({first[1]}, {x, y}, {}, {.allow_unused = true});
  EXPECT_NEAR(of_y[0].item(), 3.0, 1e-15);
  EXPECT_TRUE(!of_y[1].defined() || of_y[1].item() == 0);
}

TEST(CreateGraph, GoesToTheThirdOrder) {
  Tensor x = Tensor::from<double>({2}, {1}).set_requires_grad(), y = pow(x, 4);
  for (double want : {32.0, 48.0, 48.0}) {  // 4 x^3, 12 x^2, 24 x
    y = grad({y}, {x}, {}, {.create_graph = true})[0];
    EXPECT_NEAR(y.item(), want, 1e-12);
  }
}

TEST(CreateGraph, PutsGradientsOfLeavesIntoTheGraph) {
  Tensor x = Tensor::from<double>({3}, {1}).set_requires_grad();
  pow(x, 3).backward({}, {}, /*create_graph=*/true);
  Tensor first = x.grad();
  EXPECT_EQ(first.item(), 27);
  x.set_grad({});
  first.backward();
  EXPECT_EQ(x.grad().item(), 18);
  x.set_grad({});
}

TEST(CreateGraph, CallsHooksOfAFusedOpsInputOnce) {
  Tensor x = Tensor::from<double>({1, 2, 4, 3}, {2, 2}).set_requires_grad();
  Tensor scaled = x * 1.0;
  int on_leaf = 0, on_input = 0;
  x.register_hook([&](const Tensor&) { return ++on_leaf, Tensor(); });
  scaled.register_hook([&](const Tensor& dy) { return ++on_input, dy * 2.0; });
  Tensor y = sum(square(layer_norm(scaled, {}, {})) * x.detach());
  Tensor plain = grad({y}, {x}, {}, {.retain_graph = true})[0];
  EXPECT_EQ(on_input, 1);
  Tensor recorded = grad({y}, {x}, {}, {.create_graph = true})[0];
  EXPECT_EQ(on_input, 2);
  EXPECT_EQ(on_leaf, 2);
  EXPECT_TRUE(is_close(recorded, plain, 1e-12));
}

// H v of `loss` in `x`, against the difference of two gradients.
void check_hessian_vector_product(const std::function<Tensor(const Tensor&)>& loss, const Shape& shape) {
  Generator generator(2);
  Tensor x = (randn(shape, DType::f64, {}, &generator) * 0.5).set_requires_grad();
  Tensor v = randn(shape, DType::f64, {}, &generator);
  Tensor first = grad({loss(x)}, {x}, {}, {.create_graph = true})[0];
  Tensor product = grad({sum(first * v)}, {x})[0];
  auto gradient_at = [&](double step) {
    Tensor moved = (x.detach() + v * step).set_requires_grad();
    return grad({loss(moved)}, {moved})[0];
  };
  const double h = 1e-5;
  Tensor numeric = (gradient_at(h) - gradient_at(-h)) / (2 * h);
  // h^2 of truncation and 1e-16 / h of cancellation, with room for the third derivative.
  EXPECT_TRUE(is_close(product, numeric, 1e-7));
}

TEST(CreateGraph, GivesHessianVectorProductsThroughFusedOps) {
  Generator generator(1);
  Tensor w1 = randn({6, 4}, DType::f64, {}, &generator), b1 = randn({6}, DType::f64, {}, &generator);
  Tensor w2 = randn({4, 6}, DType::f64, {}, &generator), b2 = randn({4}, DType::f64, {}, &generator);
  Tensor targets = Tensor::from<int64_t>({1, 3, -100}, {3});
  check_hessian_vector_product(
      [&](const Tensor& x) {
        return cross_entropy(mlp(x, w1, b1, w2, b2), targets, {.label_smoothing = 0.1});
      },
      {3, 4});
  check_hessian_vector_product(
      [&](const Tensor& x) { return sum(square(attention(x, x, layer_norm(x, {}, {}), {.causal = true}))); },
      {1, 2, 3, 4});
  check_hessian_vector_product(
      [&](const Tensor& x) { return sum(sin(packed_attention(x, 2, {.causal = true}))); }, {1, 3, 12});
  check_hessian_vector_product(
      [&](const Tensor& w) {
        return cross_entropy(
            linear(tanh(b2.detach().expand({3, 4})), w, {}, {.activation = Activation::silu}), targets);
      },
      {5, 4});
}

TEST(CreateGraph, DifferentiatesCrossEntropyTwiceForLogitsFarApart) {
  Tensor targets = Tensor::from<int64_t>({0, 2}, {2});
  auto loss = [&](const TensorList& in) { return TensorList{cross_entropy(in[0], targets)}; };
  Tensor logits = Tensor::from<double>({9, -9, 0, 12, 3, -8}, {2, 3}).set_requires_grad();
  EXPECT_TRUE(gradgradcheck(loss, {logits}));
}

TEST(CreateGraph, DifferentiatesCrossEntropyTwiceInHalfTypesToo) {
  Tensor targets = Tensor::from<int64_t>({0, 2}, {2});
  for (DType dtype : {DType::bf16, DType::f16}) {
    Tensor logits = Tensor::from<float>({20, -20, 0, 1, 2, 3}, {2, 3}).to(dtype).detach().set_requires_grad();
    Tensor first = grad({cross_entropy(logits, targets)}, {logits}, {}, {.create_graph = true})[0];
    for (double value : grad({sum(square(first))}, {logits})[0].to_vector<double>())
      EXPECT_TRUE(std::isfinite(value)) << dtype;
  }
}

}  // namespace
}  // namespace reprise
