// Convolution against the sum of matrix products over the places in its window.
#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops.h"
#include "reprise/tests/nn/autocast/casts.h"
#include "reprise/tests/support/op_case.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::CountCasts;
using testing::expect_error;
using testing::OpCase;
using testing::same_bits;
using testing::test_device;

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

Tensor numbers(const Shape& shape, uint64_t seed, DType dtype = DType::f32) {
  Generator generator(seed);
  return randn(shape, DType::f32, Device::cpu(), &generator).to(dtype).to(test_device());
}

// Under autocast images of f32 are rounded as the kernel copies them: the bits of a cast before it, without one.
TEST(Conv2d, ReadsImagesOfF32UnderAutocast) {
  const std::vector<std::pair<Shape, Conv2dOptions>> windows = {{{6, 4, 3, 3}, {.stride = 2, .padding = 1}},
                                                                {{6, 4, 1, 1}, {}},
                                                                {{6, 2, 3, 2}, {.padding = 1, .groups = 2}},
                                                                {{6, 4, 2, 2}, {.stride = {5, 6}}}};
  for (DType half : {DType::bf16, DType::f16})
    for (const auto& [shape, options] : windows) {
      const Tensor images = numbers({3, 4, 11, 13}, 1), weight = numbers(shape, 2).set_requires_grad(),
                   bias = numbers({6}, 3).set_requires_grad();
      auto run = [&](const Tensor& x, int casts) {
        CountCasts count;
        Tensor y;
        {
          amp::Autocast scope(test_device(), half);
          y = conv2d(x, weight, bias, options);
        }
        const Tensor dy = numbers(y.shape(), 4, half);
        TensorList all = grad({y}, {weight, bias}, {dy}, {.retain_graph = true});
        const Tensor dw = grad({y}, {weight}, {dy.set_requires_grad()}, {.create_graph = true})[0];
        all.push_back(grad({sum(square(dw))}, {dy})[0]);
        EXPECT_GE(count.casts, casts);
        all.push_back(y.detach());
        return all;
      };
      EXPECT_TRUE(same_bits(run(images, 0), run(images.to(half), 0))) << shape << ", " << half;
      amp::Autocast scope(test_device(), half);
      CountCasts count;
      EXPECT_EQ(conv2d(images, weight, bias, options).dtype(), half);
      EXPECT_EQ(count.casts, 0);
    }
}

// Activations want a gradient: a cast makes what is kept of them, in 16 bits.
TEST(Conv2d, CastsActivationsOfF32UnderAutocast) {
  for (DType half : {DType::bf16, DType::f16})
    for (DType of_x : {DType::f32, half == DType::bf16 ? DType::f16 : DType::bf16}) {
      const Tensor x = numbers({2, 3, 8, 9}, 1, of_x).set_requires_grad(),
                   weight = numbers({4, 3, 3, 3}, 2).set_requires_grad();
      amp::Autocast scope(test_device(), half);
      CountCasts count;
      const Tensor y = conv2d(x, weight, {}, {.padding = 1});
      EXPECT_EQ(count.casts, 1);
      const Tensor dy = numbers(y.shape(), 4, half), want = conv2d(x.to(half), weight, {}, {.padding = 1});
      EXPECT_TRUE(same_bits(grad({y}, {x, weight}, {dy}), grad({want}, {x, weight}, {dy}))) << half;
    }
}

TEST(Conv2d, KeepsNoCopyOfImages) {
  const Tensor images = numbers({2, 3, 32, 32}, 1), weight = numbers({4, 3, 3, 3}, 2).set_requires_grad();
  amp::Autocast scope(test_device(), DType::bf16);
  conv2d(images, weight);  // makes the weight's shadow
  const size_t before = allocator(test_device()).stats().allocated;
  const Tensor y = conv2d(images, weight);
  EXPECT_LT(allocator(test_device()).stats().allocated - before,
            size_t(2 * y.numel() + images.numel()));  // that of the images would take twice the latter
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
