// Patches of images as tokens, against reshape, permute and matmul; and against a convolution whose stride is its size.
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;

// Sums of up to 60 products; half types round what is summed.
constexpr double kRoundings = 32;

TEST(PatchEmbed, PassesEveryCheckOfAnOp) {
  check_op(
      OpCase{.name = "patch_embed",
             .inputs = {{{2, 3, 4, 6}, -1, 1}, {{5, 3, 2, 3}, -1, 1}, {{5}, -1, 1}},
             .fn = [](const TensorList& in) { return patch_embed(in[0], in[1], in[2]); },
             .composite = [](const TensorList& in) { return composite::patch_embed(in[0], in[1], in[2]); },
             .roundings = kRoundings,
             .sums_bias_with_weight = true,
             .empty_inputs = {{{0, 3, 4, 6}}, {{5, 3, 2, 3}}, {{5}}},
             .large_inputs = {{{5, 3, 32, 32}, -1, 1}, {{33, 3, 4, 4}, -1, 1}, {{33}, -1, 1}}});
}

TEST(PatchEmbed, GoesWithoutBias) {
  check_op(OpCase{.name = "patch_embed without bias",
                  .inputs = {{{1, 2, 6, 3}, -1, 1}, {{3, 2, 3, 3}, -1, 1}},
                  .fn = [](const TensorList& in) { return patch_embed(in[0], in[1]); },
                  .composite = [](const TensorList& in) { return composite::patch_embed(in[0], in[1], {}); },
                  .roundings = kRoundings});
}

TEST(PatchEmbed, IsAConvolutionOfPatches) {
  Generator generator(3);
  const Device device = testing::test_device();
  Tensor x = randn({2, 3, 4, 6}, DType::f64, device, &generator);
  Tensor weight = randn({5, 3, 2, 2}, DType::f64, device, &generator);
  Tensor bias = randn({5}, DType::f64, device, &generator);
  Tensor want = conv2d(x, weight, bias, {.stride = 2});  // (2, 5, 2, 3)
  EXPECT_TRUE(
      testing::is_close(patch_embed(x, weight, bias), transpose(reshape(want, {2, 5, 6}), 1, 2), 1e-14));
}

TEST(PatchEmbed, RefusesWhatDoesNotFit) {
  Tensor x = zeros({1, 3, 4, 6}), weight = zeros({5, 3, 2, 2});
  expect_error(
      [&] {
        patch_embed(x, zeros({5, 3, 3, 2}));
      },
      "patch_embed: patches of 3 x 2 do not tile images of 4 x 6");
  expect_error(
      [&] {
        patch_embed(x, zeros({5, 3, 2, 4}));
      },
      "patch_embed: patches of 2 x 4 do not tile images of 4 x 6");
  expect_error([&] { patch_embed(x, zeros({5, 4, 2, 2})); }, {"patch_embed", "(1, 3, 4, 6)", "(5, 4, 2, 2)"});
  expect_error([&] { patch_embed(zeros({3, 4, 6}), weight); }, {"patch_embed", "(3, 4, 6)"});
  expect_error([&] { patch_embed(x, weight, zeros({4})); }, {"patch_embed", "bias", "(4"});
  expect_error([&] { patch_embed(x, weight.to(DType::f64)); }, "patch_embed: images are f32, weight f64");
}

}  // namespace
}  // namespace reprise
