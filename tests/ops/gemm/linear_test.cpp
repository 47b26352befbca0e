// The fully connected layer with its epilogues, against matmul, add and the activation.
// also by cuBLASLt
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;

constexpr Activation kActivations[] = {Activation::none, Activation::relu, Activation::gelu,
                                       Activation::gelu_tanh, Activation::silu};

TEST(Linear, PassesEveryCheckOfAnOpWithBiasActivationAndResidual) {
  for (Activation activation : kActivations)
    check_op(OpCase{
        .name = detail::join("linear with activation ", int(activation)),
        .inputs = {{{2, 3, 5}, -1, 1}, {{7, 5}, -1, 1}, {{7}, 0.5, 1}, {{2, 3, 7}}},
        .fn =
            [=](const TensorList& in) {
              return linear(in[0], in[1], in[2], {.activation = activation, .residual = in[3]});
            },
        .composite =
            [=](const TensorList& in) {
              return composite::linear(in[0], in[1], in[2], {.activation = activation, .residual = in[3]});
            },
        // Sums of up to 7 products; the pre-activation and its gradient are rounded in half types.
        .roundings = 16,
        .sums_bias_with_weight = true,
        .empty_inputs = {{{0, 5}}, {{7, 5}}, {{7}}, {{0, 7}}},
        .large_inputs = {{{203, 67}, -1, 1}, {{131, 67}, -1, 1}, {{131}}, {{203, 131}}}});
}

// Numbers for samples: one of them is dropped.
Tensor sample_numbers(const Tensor& like, int64_t samples) {
  std::vector<double> numbers(static_cast<size_t>(samples), 1.25);
  if (samples > 1) numbers[1] = 0;
  return Tensor::from(numbers, {samples}).to(like.dtype()).to(like.device());
}

TEST(Linear, PassesEveryCheckOfAnOpWithScales) {
  for (Activation activation : {Activation::none, Activation::gelu})
    for (bool bias : {true, false}) {
      auto epilogue = [=](const TensorList& in) {
        return LinearEpilogue{.activation = activation,
                              .residual = in[2],
                              .scale = in[3],
                              .row_scale = sample_numbers(in[0], in[0].size(0))};
      };
      auto bias_in = [=](const TensorList& in) { return bias ? in[4] : Tensor(); };
      OpCase op{.name = detail::join("linear with scales, activation ", int(activation), " bias ", bias),
                .inputs = {{{3, 2, 5}, -1, 1}, {{7, 5}, -1, 1}, {{3, 2, 7}}, {{7}, 0.1, 1, true}},
                .fn = [=](const TensorList& in) { return linear(in[0], in[1], bias_in(in), epilogue(in)); },
                .composite =
                    [=](const TensorList& in) {
                      return composite::linear(in[0], in[1], bias_in(in), epilogue(in));
                    },
                // Sums of up to 7 products, of which those of the scale's gradient are rounded in half types.
                .roundings = 24,
                .sums_bias_with_weight = true,
                .empty_inputs = {{{0, 2, 5}}, {{7, 5}}, {{0, 2, 7}}, {{7}}},
                .large_inputs = {{{203, 67}, -1, 1}, {{131, 67}, -1, 1}, {{203, 131}}, {{131}}}};
      if (bias) {
        op.inputs.push_back({{7}, 0.5, 1});
        op.empty_inputs.push_back({{7}});
        op.large_inputs.push_back({{131}});
      }
      check_op(op);
    }
}

TEST(Linear, GivesItsScaleTheSameGradientWithAndWithoutItsWeights) {
  const Device device = testing::test_device();
  auto gradient = [&](bool weights) {
    manual_seed(3);
    Tensor x = rand({6, 5}, DType::f32, device), w = rand({7, 5}, DType::f32, device);
    Tensor b = rand({7}, DType::f32, device), gamma = rand({7}, DType::f32, device).set_requires_grad();
    w.set_requires_grad(weights), b.set_requires_grad(weights);
    square(linear(x, w, b, {.scale = gamma})).sum().backward();
    EXPECT_EQ(w.grad().defined(), weights);
    return gamma.grad();
  };
  EXPECT_TRUE(testing::same_bits(gradient(true), gradient(false)));
}

TEST(Linear, GoesWithoutBias) {
  check_op(OpCase{.name = "linear without bias",
                  .inputs = {{{3, 5}}, {{7, 5}}},
                  .fn = [](const TensorList& in) { return linear(in[0], in[1]); },
                  .composite = [](const TensorList& in) { return composite::linear(in[0], in[1], {}, {}); },
                  .roundings = 16});
}

TEST(Linear, OfAVectorIsAVector) {
  check_op(OpCase{.name = "linear of a vector",
                  .inputs = {{{5}}, {{7, 5}}, {{7}}},
                  .fn = [](const TensorList& in) { return linear(in[0], in[1], in[2]); },
                  .composite =
                      [](const TensorList& in) {
                        return reshape(composite::linear(reshape(in[0], {1, 5}), in[1], in[2], {}), {7});
                      },
                  .roundings = 16});
}

TEST(Linear, OfNoInputsIsTheBias) {
  Tensor y = linear(zeros({3, 0}), zeros({2, 0}), Tensor::from<float>({4, 5}, {2}));
  EXPECT_EQ(y.to_vector<int64_t>(), (std::vector<int64_t>{4, 5, 4, 5, 4, 5}));
}

TEST(Linear, RefusesWhatDoesNotFit) {
  Tensor x = zeros({3, 5}), w = zeros({7, 5});
  expect_error([&] { linear(x, zeros({7, 4})); }, {"linear", "(3, 5)", "(7, 4)"});
  expect_error([&] { linear(x, w, zeros({6})); }, {"linear", "bias"});
  expect_error([&] { linear(x, w, zeros({7}, DType::f64)); }, {"linear", "bias", "f64"});
  expect_error([&] { linear(x, zeros({7, 5}, DType::f64)); }, {"linear", "f32", "f64"});
  expect_error([&] { linear(x, w, {}, {.residual = zeros({3, 5})}); }, {"linear", "residual"});
  expect_error([&] { linear(x, w, {}, {.residual = zeros({3, 7}, DType::f64)}); }, {"linear", "residual"});
  expect_error([&] { linear(x, w, {}, {.scale = zeros({5})}); }, {"linear", "scale", "(5,)", "(7,)"});
  expect_error([&] { linear(x, w, {}, {.scale = zeros({7}, DType::f64)}); }, {"linear", "scale", "f64"});
  expect_error([&] { linear(x, w, {}, {.row_scale = zeros({2})}); }, {"linear", "row_scale", "(2,)", "(3,)"});
  expect_error([&] { linear(zeros({5}), w, {}, {.row_scale = zeros({1})}); },
               {"linear", "row_scale", "(5,)"});
}

}  // namespace
}  // namespace reprise
