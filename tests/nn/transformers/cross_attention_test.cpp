// Cross attention against its formula, and against self-attention where both are one.
#include "reprise/nn/transformers/cross_attention.h"

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/nn/transformers/transformer_block.h"
#include "reprise/tests/support/compare.h"

namespace reprise::nn {
namespace {

using testing::expect_error;
using testing::is_close;

TEST(CrossAttention, IsSelfAttentionWhereTheContextIsX) {
  manual_seed(1);
  MultiHeadAttention self(16, 4, {.causal = true});
  CrossAttention cross(16, 4);
  NoGrad unrecorded;
  Linear* parts[] = {&cross.q_proj, &cross.k_proj, &cross.v_proj};
  for (int64_t i = 0; i < 3; ++i) {
    parts[i]->weight.copy_(self.qkv.weight.slice(0, 16 * i, 16 * (i + 1)));
    parts[i]->bias.copy_(self.qkv.bias.slice(0, 16 * i, 16 * (i + 1)));
  }
  cross.out_proj.weight.copy_(self.proj.weight);
  cross.out_proj.bias.copy_(self.proj.bias);
  const Tensor x = randn({2, 6, 16});
  EXPECT_TRUE(is_close(cross(x, x, tril(ones({6, 6})) > 0), self(x), 1e-5));
  MultiHeadAttention both_ways(16, 4, {.causal = false});
  both_ways.load_state_dict(self.state_dict());
  EXPECT_TRUE(is_close(cross(x, x), both_ways(x), 1e-5));
}

TEST(CrossAttention, DoesNotSeePadding) {
  manual_seed(2);
  CrossAttention cross(16, 4, {.context_width = 12, .kv_heads = 2, .bias = false});
  const Tensor x = randn({2, 3, 16}), context = randn({2, 5, 12});
  const Tensor lengths = Tensor::from<int64_t>({5, 2}, {2, 1, 1, 1});
  const Tensor y = cross(x, context, arange(5) < lengths);
  EXPECT_TRUE(is_close(y.slice(0, 0, 1), cross(x.slice(0, 0, 1), context.slice(0, 0, 1)), 1e-5));
  EXPECT_TRUE(
      is_close(y.slice(0, 1, 2), cross(x.slice(0, 1, 2), context.slice(0, 1, 2).slice(1, 0, 2)), 1e-5));
}

// Token t of 3 stands beside token t + 4 of the 7 of the context.
TEST(CrossAttention, SeesWhatCausalAndWindowLeave) {
  const Tensor x = randn({2, 3, 16}), context = randn({2, 7, 16});
  const Tensor ahead = arange(7) - (arange(3) + 4).reshape({3, 1});  // (3, 7)
  const Tensor near = (ahead > -3) & (ahead < 3), past = ahead <= 0, real = arange(7) != 4;
  auto outcome = [&](const CrossAttentionOptions& options, const Tensor& mask) {
    manual_seed(4);  // the same weights each time
    return CrossAttention(16, 4, options)(x, context, mask);
  };
  EXPECT_TRUE(is_close(outcome({.causal = true}, {}), outcome({}, past), 1e-5));
  EXPECT_TRUE(is_close(outcome({.window = 3}, {}), outcome({}, near), 1e-5));
  EXPECT_TRUE(is_close(outcome({.causal = true, .window = 3}, {}), outcome({}, past & near), 1e-5));
  EXPECT_TRUE(is_close(outcome({.causal = true, .window = 3}, real), outcome({}, past & near & real), 1e-5));
}

TEST(CrossAttention, IsALayerWithHooksAndReplacements) {
  manual_seed(3);
  struct Outer : Module {
    CrossAttention cross{16, 4};
    Outer() { register_module("cross", cross); }
  } outer;
  const Tensor x = randn({2, 3, 16}), context = randn({2, 5, 16}), real = arange(5) != 4;
  const Tensor want = outer.cross(x, context, real);
  EXPECT_TRUE(is_close(outer.cross(x), outer.cross(x, x), 1e-6));
  Tensor seen;
  auto remove = outer.cross.register_forward_hook([&](const Tensor& in, const Tensor& y) {
    seen = in;
    return y * 2.0;
  });
  EXPECT_TRUE(is_close(outer.cross(x, context, real), want * 2.0, 1e-6));
  EXPECT_TRUE(is_close(seen, x, 0));
  remove();

  auto other = std::make_shared<CrossAttention>(16, 4, CrossAttentionOptions{.bias = false});
  outer.replace("cross", other);
  EXPECT_TRUE(is_close(outer.cross(x, context, real), (*other)(x, context, real), 0));
  outer.replace("cross", std::make_shared<Linear>(16, 16));
  expect_error([&] { outer.cross(x, context); },
               {"Linear: takes x alone, and was given f32 (2, 5, 16) beside it"});
  expect_error([&] { CrossAttention(16, 4).call_with(x, {x}); },
               {"CrossAttention: takes a context and a mask beside x, got 1 tensors"});
}

TEST(CrossAttention, DropsInTrainingAlone) {
  manual_seed(3);
  CrossAttention cross(16, 4, {.dropout = 0.5});
  const Tensor x = randn({1, 4, 16}), mask = ones({4, 4}, DType::boolean);
  EXPECT_FALSE(testing::same_bits(cross(x, x, mask), cross(x, x, mask)));
  EXPECT_FALSE(testing::same_bits(cross(x, x), cross(x, x)));
  cross.eval();
  EXPECT_TRUE(testing::same_bits(cross(x, x, mask), cross(x, x, mask)));
}

TEST(CrossAttention, SaysWhatDoesNotFit) {
  expect_error([] { CrossAttention(10, 4); }, {"CrossAttention: width 10 is not a multiple of 4 heads"});
  expect_error([] { CrossAttention(16, 4, {.kv_heads = 3}); }, {"CrossAttention: 4 heads cannot share 3"});
  expect_error([] { CrossAttention(16, 4, {.context_width = -2}); },
               {"CrossAttention: a context_width of -2"});
  expect_error([] { CrossAttention(16, 4, {.window = -1}); },
               {"CrossAttention: window is -1, should not be negative"});
  CrossAttention cross(16, 4);
  expect_error([&] { cross(zeros({1, 2, 16}), zeros({2, 2, 16})); }, {"CrossAttention: needs (B, T, width)"});
}

}  // namespace
}  // namespace reprise::nn
