// Derivatives as values, against those by hand and by differences.
#include "reprise/autograd/functional/derivatives.h"

#include <cmath>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/recompute/checkpoint.h"
#include "reprise/tests/support/compare.h"

namespace reprise {
namespace {

using autograd::TensorFunction;
using testing::expect_error;
using testing::is_close;

// y0 = (x0 x1, x0^2 w), y1 = sum of sin: J by hand below.
TensorList two_outputs(const TensorList& in) {
  const Tensor a = in[0].select(0, 0), b = in[0].select(0, 1);
  return {stack({a * b, square(a) * in[1]}, 0), sum(sin(in[0]))};
}

TensorList point() { return {Tensor::from<double>({0.5, -2}, {2}), Tensor::from<double>({3}, {})}; }

TEST(Jacobian, IsThatByHand) {
  const auto j = jacobian(TensorFunction(two_outputs), point());
  EXPECT_TRUE(is_close(j[0][0], Tensor::from<double>({-2, 0.5, 3, 0}, {2, 2}), 1e-15));  // (y, x)
  EXPECT_TRUE(is_close(j[0][1], Tensor::from<double>({0, 0.25}, {2}), 1e-15));
  EXPECT_TRUE(is_close(j[1][0], Tensor::from<double>({std::cos(0.5), std::cos(-2)}, {2}), 1e-15));
  EXPECT_TRUE(is_close(j[1][1], Tensor::from<double>({0}, {}), 0));
  EXPECT_FALSE(j[0][0].requires_grad());
}

TEST(Jacobian, OfALinearMapIsItsMatrixAndOfNothingIsEmpty) {
  const Tensor m = randn({3, 4}, DType::f64);
  EXPECT_TRUE(is_close(
      jacobian([&](const Tensor& x) { return matmul(m, x.unsqueeze(1)).squeeze(1); }, randn({4}, DType::f64)),
      m, 1e-15));
  const Tensor identity =
      jacobian([](const Tensor& x) { return x.transpose(0, 1); }, zeros({2, 3}, DType::f64));
  EXPECT_EQ(identity.shape(), (Shape{3, 2, 2, 3}));
  EXPECT_EQ(identity.sum().item(), 6);
  EXPECT_EQ(jacobian([](const Tensor& x) { return x.slice(0, 0, 0); }, zeros({3})).shape(), (Shape{0, 3}));
  EXPECT_EQ(jacobian([](const Tensor&) { return ones({2}); }, zeros({3})).to_vector<double>(),
            std::vector<double>(6, 0));
}

TEST(Products, AreThoseWithTheJacobian) {
  const TensorList x = point();
  const auto j = jacobian(TensorFunction(two_outputs), x);
  const TensorList v = {Tensor::from<double>({0.3, 0.7}, {2}), Tensor::from<double>({-1.1}, {})};
  const auto forward = jvp(two_outputs, x, v);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(is_close(forward.values[i], two_outputs(x)[i], 1e-15));
    EXPECT_TRUE(is_close(forward.product[i], sum(j[i][0] * v[0], {-1}) + j[i][1] * v[1], 1e-14));
    EXPECT_FALSE(forward.product[i].requires_grad());
  }
  const TensorList u = {Tensor::from<double>({2, -0.4}, {2}), Tensor::from<double>({0.9}, {})};
  const auto back = vjp(two_outputs, x, u);
  EXPECT_TRUE(is_close(back.product[0], sum(u[0].unsqueeze(1) * j[0][0], {0}) + u[1] * j[1][0], 1e-14));
  EXPECT_TRUE(is_close(back.product[1], sum(u[0] * j[0][1]) + u[1] * j[1][1], 1e-14));
  EXPECT_FALSE(x[0].requires_grad());
  EXPECT_FALSE(x[0].grad().defined());
}

TEST(Hessian, IsThatByHand) {
  // f = x^2 y + sin x
  const auto f = [](const TensorList& in) { return TensorList{square(in[0]) * in[1] + sin(in[0])}; };
  const TensorList at = {Tensor::from<double>({1.5}, {1}), Tensor::from<double>({-0.5}, {1})};
  const auto h = hessian(TensorFunction(f), at);
  EXPECT_NEAR(h[0][0].item(), 2 * -0.5 - std::sin(1.5), 1e-14);
  EXPECT_NEAR(h[0][1].item(), 3, 1e-14);
  EXPECT_NEAR(h[1][0].item(), 3, 1e-14);
  EXPECT_EQ(h[1][1].item(), 0);
  EXPECT_EQ(h[0][0].shape(), (Shape{1, 1}));
  const auto product = hvp(f, at, {ones({1}, DType::f64), full({1}, 2, DType::f64)});
  EXPECT_NEAR(product.product[0].item(), h[0][0].item() + 2 * 3, 1e-14);
  EXPECT_NEAR(product.product[1].item(), 3, 1e-14);
}

TEST(Hessian, OfAQuadraticFormIsItsMatrixThroughCheckpointsToo) {
  const Tensor m = randn({4, 4}, DType::f64), symmetric = m + m.transpose(0, 1);
  auto form = [&](const Tensor& x) { return sum(x * matmul(m, x.unsqueeze(1)).squeeze(1)); };
  const Tensor x = randn({4}, DType::f64);
  EXPECT_TRUE(is_close(hessian(form, x), symmetric, 1e-13));
  auto checkpointed = [&](const Tensor& at) {
    return recompute::checkpoint([&](const TensorList& in) { return TensorList{form(in[0])}; }, {at})[0];
  };
  EXPECT_TRUE(testing::same_bits(hessian(checkpointed, x), hessian(form, x)));
}

TEST(Derivatives, GoOnWithCreateGraph) {
  const Tensor x = Tensor::from<double>({0.5, -2}, {2}).set_requires_grad();
  const Tensor j = jacobian([](const Tensor& in) { return pow(in, 3); }, x, true);  // diagonal of 3 x^2
  sum(j).backward();
  EXPECT_TRUE(is_close(x.grad(), Tensor::from<double>({3, -12}, {2}), 1e-13));
  const auto forward =
      jvp([](const TensorList& in) { return TensorList{pow(in[0], 3)}; }, {x}, {ones({2}, DType::f64)}, true);
  EXPECT_TRUE(is_close(grad({sum(forward.product[0])}, {x})[0], Tensor::from<double>({3, -12}, {2}), 1e-13));
}

TEST(Derivatives, WorkInsideOfNoGrad) {
  NoGrad guard;
  EXPECT_EQ(jacobian([](const Tensor& x) { return square(x); }, full({1}, 3, DType::f64)).item(), 6);
}

TEST(Derivatives, SayWhatDoesNotFit) {
  const TensorFunction twice = [](const TensorList& in) { return TensorList{in[0] * 2.0}; };
  expect_error([&] { jvp(twice, {zeros({3})}, {zeros({2})}); },
               {"jvp: vector 0 must have the shape of its inputs, (3,), got (2,)"});
  expect_error([&] { vjp(twice, {zeros({3})}, {}); }, {"vjp: 0 vectors for 1 outputs"});
  expect_error([&] { jacobian(twice, {zeros({3}, DType::i64)}); },
               {"jacobian: input 0 needs a floating dtype, got i64"});
  expect_error(
      [&] { hessian(twice, {zeros({3})}); },
      {"hessian: the function must give one tensor of one element, gave 1 of which the first has 3"});
  expect_error([&] { hvp(twice, {Tensor()}, {zeros({1})}); }, {"hvp"});
}

}  // namespace
}  // namespace reprise
