// The fused two-layer perceptron, against two linear layers.
// also by cuBLASLt
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/op_case.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;

TEST(Mlp, PassesEveryCheckOfAnOp) {
  for (Activation activation :
       {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu})
    check_op(OpCase{
        .name = detail::join("mlp with activation ", int(activation)),
        .inputs = {{{2, 2, 3}, -1, 1}, {{5, 3}, -1, 1}, {{5}, -1, 1}, {{3, 5}, -1, 1}, {{3}}, {{2, 2, 3}}},
        .fn =
            [=](const TensorList& in) {
              return mlp(in[0], in[1], in[2], in[3], in[4], activation, {.residual = in[5]});
            },
        .composite =
            [=](const TensorList& in) {
              return composite::mlp(in[0], in[1], in[2], in[3], in[4], activation, {.residual = in[5]});
            },
        // Three products deep; hidden values, the pre-activation and its gradient are rounded in half types.
        .roundings = 24,
        .sums_bias_with_weight = true,
        .empty_inputs = {{{0, 3}}, {{5, 3}}, {{5}}, {{3, 5}}, {{3}}, {{0, 3}}},
        .large_inputs =
            {{{203, 37}, -1, 1}, {{149, 37}, -1, 1}, {{149}}, {{37, 149}, -1, 1}, {{37}}, {{203, 37}}}});
}

TEST(Mlp, PassesEveryCheckOfAnOpWithScales) {
  auto end = [](const TensorList& in) {  // the second sample is dropped
    std::vector<double> numbers(size_t(in[0].size(0)), 1.25);
    if (numbers.size() > 1) numbers[1] = 0;
    Tensor row_scale = Tensor::from(numbers, {in[0].size(0)}).to(in[0].dtype()).to(in[0].device());
    return LinearEpilogue{.residual = in[5], .scale = in[6], .row_scale = row_scale};
  };
  check_op(OpCase{.name = "mlp with scales",
                  .inputs = {{{3, 2, 3}, -1, 1},
                             {{5, 3}, -1, 1},
                             {{5}, -1, 1},
                             {{3, 5}, -1, 1},
                             {{3}},
                             {{3, 2, 3}},
                             {{3}, 0.1, 1, true}},
                  .fn =
                      [=](const TensorList& in) {
                        return mlp(in[0], in[1], in[2], in[3], in[4], Activation::gelu, end(in));
                      },
                  .composite =
                      [=](const TensorList& in) {
                        return composite::mlp(in[0], in[1], in[2], in[3], in[4], Activation::gelu, end(in));
                      },
                  .roundings = 32,  // as above; the product behind the scale's gradient is rounded too
                  .sums_bias_with_weight = true,
                  .empty_inputs = {{{0, 3}}, {{5, 3}}, {{5}}, {{3, 5}}, {{3}}, {{0, 3}}, {{3}}},
                  .large_inputs = {{{203, 37}, -1, 1},
                                   {{149, 37}, -1, 1},
                                   {{149}},
                                   {{37, 149}, -1, 1},
                                   {{37}},
                                   {{203, 37}},
                                   {{37}}}});
}

TEST(Mlp, GoesWithoutBiasesAndResidual) {
  check_op(OpCase{.name = "mlp without biases",
                  .inputs = {{{3, 3}, -1, 1}, {{5, 3}, -1, 1}, {{3, 5}, -1, 1}},
                  .fn = [](const TensorList& in) { return mlp(in[0], in[1], {}, in[2], {}); },
                  .composite =
                      [](const TensorList& in) {
                        return composite::mlp(in[0], in[1], {}, in[2], {}, Activation::gelu_tanh, {});
                      },
                  .roundings = 24});
}

// The gradient of a bias is read off the product of its weight's, if that is wanted.
TEST(Mlp, GivesEachBiasTheSameGradientWithAndWithoutItsWeights) {
  const Device device = testing::test_device();
  auto gradients = [&](bool weights) {
    manual_seed(3);
    Tensor x = rand({67, 5}, DType::f32, device);
    TensorList p;
    for (const Shape& shape : {Shape{33, 5}, Shape{33}, Shape{5, 33}, Shape{5}})
      p.push_back(rand(shape, DType::f32, device).set_requires_grad(weights || shape.size() == 1));
    Tensor y = linear(mlp(x, p[0], p[1], p[2], p[3]), p[0], p[1], {.activation = Activation::silu});
    square(y).sum().backward();
    return TensorList{p[1].grad(), p[3].grad()};
  };
  TensorList with = gradients(true), without = gradients(false);
  // A GPU's cuBLASLt sums in another order.
  for (size_t i = 0; i < with.size(); ++i) EXPECT_TRUE(testing::is_close(with[i], without[i], 1e-5));
}

TEST(Mlp, RefusesWhatDoesNotFit) {
  Tensor x = zeros({2, 3}), w1 = zeros({5, 3}), w2 = zeros({3, 5});
  expect_error([&] { mlp(x, w2, {}, w1, {}); }, {"mlp", "(2, 3)", "(3, 5)"});
  expect_error([&] { mlp(x, w1, {}, zeros({3, 4}), {}); }, {"mlp", "(3, 4)"});
  expect_error([&] { mlp(x, w1, zeros({4}), w2, {}); }, {"mlp", "bias"});
  expect_error([&] { mlp(x, w1, {}, w2, zeros({4})); }, {"mlp", "bias"});
  expect_error(
      [&] {
        mlp(x, w1, {}, w2, {}, Activation::gelu, {.residual = zeros({2, 4})});
      },
      {"mlp", "residual"});
  expect_error([&] { mlp(x, w1, {}, w2, {}, Activation::gelu, {.scale = zeros({5})}); }, {"mlp", "scale"});
  expect_error([&] { mlp(x, w1, {}, w2, {}, Activation::gelu, {.activation = Activation::relu}); },
               {"mlp", "activation"});
}

}  // namespace
}  // namespace reprise
