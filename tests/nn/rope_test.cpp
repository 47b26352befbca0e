// Rotary positions against their definition, pair by pair of channels.
#include "reprise/nn/transformers/rope.h"

#include <cmath>

#include "reprise/autograd/ops.h"
#include "reprise/tests/nn/small_models.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise::nn {
namespace {

using testing::expect_error;
using testing::is_close;
using testing::random_input;
using testing::same_bits;
using testing::test_device;

constexpr int64_t rows = 2, columns = 3, prefix = 2, head_dim = 8, tokens = prefix + rows * columns;

// By slices, sines and sums of each pair of channels.
Tensor composite_rope(const Tensor& x) {
  TensorList turned;
  for (int64_t token = 0; token < tokens; ++token) {
    TensorList channels;
    for (int64_t pair = 0; pair < head_dim / 2; ++pair) {
      const int64_t patch = token - prefix, pairs_per_axis = head_dim / 4;
      const int64_t place = pair < pairs_per_axis ? patch / columns : patch % columns;
      const double rate = std::pow(10000.0, -double(pair % pairs_per_axis) / double(pairs_per_axis));
      const double angle = token < prefix ? 0 : double(place) * rate;
      Tensor of_token = slice(x, 1, token, token + 1);
      Tensor a = slice(of_token, 3, 2 * pair, 2 * pair + 1),
             b = slice(of_token, 3, 2 * pair + 1, 2 * pair + 2);
      channels.push_back(a * std::cos(angle) - b * std::sin(angle));
      channels.push_back(b * std::cos(angle) + a * std::sin(angle));
    }
    turned.push_back(concat(channels, 3));
  }
  return concat(turned, 1);
}

TEST(Rope, TurnsPairsOfChannelsByRowAndColumn) {
  Rope rope({rows, columns}, prefix, head_dim, test_device());
  Tensor x = random_input({3, tokens, 2, head_dim}).to(test_device()).set_requires_grad();
  Tensor x64 = x.detach().to(DType::f64).set_requires_grad();
  Tensor y = rope(x), want = composite_rope(x64), dy = random_input(x.shape(), 4);
  // Two products and a sum in f32, tables rounded to f32.
  constexpr double tolerance = 1e-6;
  EXPECT_TRUE(is_close(y, want, tolerance));
  y.backward(dy.to(test_device()));
  want.backward(dy.to(DType::f64).to(test_device()));
  EXPECT_TRUE(is_close(x.grad(), x64.grad(), tolerance));
  Tensor before = slice(x.detach(), 1, 0, prefix).contiguous();
  EXPECT_TRUE(same_bits(slice(y.detach(), 1, 0, prefix).contiguous(), before));
}

// Tokens of f32 give 16 bits where a product asks for them: the bits of those in f32, rounded.
TEST(Rope, WritesWhatAProductReads) {
  Rope rope({rows, columns}, prefix, head_dim, test_device());
  const Tensor x = random_input({3, tokens, 2, head_dim}).to(test_device());
  for (DType out : {DType::bf16, DType::f16})
    EXPECT_TRUE(same_bits(rope.forward(x, {.out = out}), rope(x).to(out)));
  const auto remove = rope.register_forward_hook([](const Tensor&, const Tensor& y) { return y * 2.0; });
  EXPECT_TRUE(same_bits(rope.forward(x, {.out = DType::bf16}), rope(x).to(DType::bf16)));
}

// What attention sees of two patches depends on how far apart they are, no more.
TEST(Rope, LeavesScoresToTheDistance) {
  Rope rope({3, 3}, 0, head_dim);
  Tensor one = random_input({1, 1, 1, head_dim}).to(DType::f64),
         other = random_input({1, 1, 1, head_dim}, 5).to(DType::f64);
  rope.to(DType::f64);
  Tensor q = rope(expand(one, {1, 9, 1, head_dim})), k = rope(expand(other, {1, 9, 1, head_dim}));
  auto score = [&](int64_t from, int64_t to) { return sum(select(q, 1, from) * select(k, 1, to)).item(); };
  EXPECT_NEAR(score(0, 4), score(4, 8), 1e-6);  // one down, one to the right; the tables are f32's
  EXPECT_NEAR(score(2, 4), score(4, 6), 1e-6);
  EXPECT_GT(std::abs(score(0, 4) - score(2, 4)), 1e-2);
}

TEST(Rope, FollowsItsModelAndIsNotSaved) {
  Rope rope({rows, columns}, prefix, head_dim);
  EXPECT_TRUE(rope.state_dict().empty() && rope.named_buffers().empty());
  Tensor x = random_input({1, tokens, 1, head_dim});
  Tensor want = rope(x);
  rope.to(DType::f64), rope.to(test_device());
  Tensor got = rope(x.to(DType::f64).to(test_device()));
  EXPECT_EQ(got.dtype(), DType::f64);
  EXPECT_TRUE(is_close(got, want.to(test_device()), 1e-6));  // f32's roundings
}

TEST(Rope, RefusesWhatDoesNotFit) {
  expect_error([] { Rope({2, 2}, 1, 6); }, {"Rope", "head_dim 6"});
  expect_error([] { Rope({0, 2}, 1, 8); }, {"Rope", "0 x 2"});
  Rope rope({rows, columns}, prefix, head_dim);
  expect_error([&] { rope(zeros({1, 7, 1, 8})); }, {"Rope", "(B, 8, H, 8)", "(1, 7, 1, 8)"});
}

}  // namespace
}  // namespace reprise::nn
