// Transposed convolution against the sum of matrix products over the places in its window.
#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;

// Sums over windows; half types round what is summed.
constexpr double kRoundings = 64;

void check_case(const char* name, const Shape& x, const Shape& weight,
                const ConvTranspose2dOptions& options) {
  check_op(OpCase{
      .name = name,
      .inputs = {{x, -1, 1}, {weight, -1, 1}, {{weight[1] * options.groups}, -1, 1}},
      .fn = [=](const TensorList& in) { return conv_transpose2d(in[0], in[1], in[2], options); },
      .composite =
          [=](const TensorList& in) { return composite::conv_transpose2d(in[0], in[1], in[2], options); },
      .roundings = kRoundings});
}

TEST(ConvTranspose2d, PassesEveryCheckOfAnOp) {
  check_case("doubling", {2, 3, 2, 3}, {3, 2, 2, 2}, {.stride = 2});
  check_case("padded", {1, 2, 3, 4}, {2, 2, 3, 3}, {.padding = 1});
  check_case("with output padding", {1, 2, 3, 2}, {2, 1, 3, 3},
             {.stride = {2, 3}, .padding = 1, .output_padding = {1, 2}});
  check_case("dilated", {1, 1, 3, 3}, {1, 2, 2, 2}, {.stride = 2, .padding = 1, .dilation = 2});
  check_case("grouped", {1, 4, 3, 3}, {4, 1, 2, 2}, {.groups = 2});
}

TEST(ConvTranspose2d, WithoutBiasOfManyImagesIsExactAcrossThreads) {
  check_op(OpCase{
      .name = "conv_transpose2d without bias",
      .inputs = {{{1, 2, 3, 3}, -1, 1}, {{2, 2, 2, 2}, -1, 1}},
      .fn = [](const TensorList& in) { return conv_transpose2d(in[0], in[1]); },
      .composite = [](const TensorList& in) { return composite::conv_transpose2d(in[0], in[1], {}, {}); },
      .roundings = kRoundings,
      .empty_inputs = {{{0, 2, 3, 3}}, {{2, 2, 2, 2}}},
      .large_inputs = {{{4, 8, 24, 24}, -1, 1}, {{8, 3, 3, 3}, -1, 1}}});
}

TEST(ConvTranspose2d, RefusesWhatDoesNotFit) {
  Tensor x = zeros({1, 4, 5, 5}), weight = zeros({4, 2, 3, 3});
  expect_error([&] { conv_transpose2d(x, zeros({2, 4, 3, 3})); }, {"conv_transpose2d", "(2, 4, 3, 3)"});
  expect_error([&] { conv_transpose2d(zeros({4, 5, 5}), weight); }, {"conv_transpose2d", "(4, 5, 5)"});
  expect_error([&] { conv_transpose2d(x, weight, zeros({4})); },
               "conv_transpose2d: bias is (4,), needs (2,)");
  expect_error([&] { conv_transpose2d(x, weight, {}, {.stride = 2, .output_padding = 2}); },
               "conv_transpose2d: output_padding (2, 2) must be less than the stride (2, 2)");
  expect_error([&] { conv_transpose2d(x, weight, {}, {.padding = 4}); },
               {"conv_transpose2d", "padding of (4, 4)"});
  expect_error([&] { conv_transpose2d(x, weight.to(DType::f64)); }, {"conv_transpose2d", "f64"});
  expect_error([&] { conv_transpose2d(x, weight, {}, {.groups = 3}); }, "3 groups");
  expect_error([&] { conv_transpose2d(x, weight, {}, {.stride = int64_t(1) << 62}); }, {"conv", "large"});
}

}  // namespace
}  // namespace reprise
