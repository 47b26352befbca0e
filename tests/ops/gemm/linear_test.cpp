// The fully connected layer with its epilogues, against matmul, add and the activation.
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"

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
        .empty_inputs = {{{0, 5}}, {{7, 5}}, {{7}}, {{0, 7}}},
        .large_inputs = {{{203, 67}, -1, 1}, {{131, 67}, -1, 1}, {{131}}, {{203, 131}}}});
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
}

}  // namespace
}  // namespace reprise
