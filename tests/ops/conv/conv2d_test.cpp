// Convolution against the sum of matrix products over the places in its window.
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;

// The gradients are sums over all windows, and half types round what is summed.
constexpr double kRoundings = 64;

void check_conv2d(const char* name, const Shape& x, const Shape& weight, const Conv2dOptions& options) {
  check_op(OpCase{
      .name = name,
      .inputs = {{x, -1, 1}, {weight, -1, 1}, {{weight[0]}, -1, 1}},
      .fn = [=](const TensorList& in) { return conv2d(in[0], in[1], in[2], options); },
      .composite = [=](const TensorList& in) { return composite::conv2d(in[0], in[1], in[2], options); },
      .roundings = kRoundings});
}

TEST(Conv2d, PassesEveryCheckOfAnOp) {
  check_conv2d("patches", {2, 2, 4, 6}, {3, 2, 2, 3}, {.stride = {2, 3}});
  check_conv2d("padded", {1, 2, 3, 4}, {2, 2, 3, 3}, {.padding = 1});
  check_conv2d("strided and dilated", {1, 1, 7, 5}, {2, 1, 2, 2}, {.stride = 2, .padding = 1, .dilation = 2});
  check_conv2d("grouped", {1, 4, 3, 3}, {2, 2, 2, 2}, {.groups = 2});
}

TEST(Conv2d, WithoutBiasOfManyImagesIsExactAcrossThreads) {
  check_op(OpCase{.name = "conv2d without bias",
                  .inputs = {{{1, 2, 3, 3}, -1, 1}, {{2, 2, 2, 2}, -1, 1}},
                  .fn = [](const TensorList& in) { return conv2d(in[0], in[1]); },
                  .composite = [](const TensorList& in) { return composite::conv2d(in[0], in[1], {}, {}); },
                  .roundings = kRoundings,
                  .empty_inputs = {{{0, 2, 3, 3}}, {{2, 2, 2, 2}}},
                  .large_inputs = {{{4, 3, 24, 24}, -1, 1}, {{8, 3, 3, 3}, -1, 1}}});
}

TEST(Conv2d, RefusesWhatDoesNotFit) {
  Tensor x = zeros({1, 4, 5, 5}), weight = zeros({2, 4, 3, 3});
  expect_error([&] { conv2d(x, zeros({2, 3, 3, 3})); }, {"conv2d", "(2, 3, 3, 3)"});
  expect_error([&] { conv2d(zeros({4, 5, 5}), weight); }, {"conv2d", "(4, 5, 5)"});
  expect_error([&] { conv2d(x, weight, zeros({3})); }, {"conv2d", "bias", "(3"});
  expect_error([&] { conv2d(x, zeros({2, 4, 3, 3}, DType::f64)); }, {"conv2d", "f64"});
  expect_error([&] { conv2d(x, zeros({2, 4, 6, 6})); }, {"conv2d", "smaller"});
  expect_error([&] { conv2d(x, weight, {}, {.stride = 0}); }, {"conv2d", "stride"});
  expect_error([&] { conv2d(x, weight, {}, {.groups = 3}); }, {"conv2d", "3 groups"});
}

}  // namespace
}  // namespace reprise
