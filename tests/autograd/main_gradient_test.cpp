// Gradients of 16-bit leaves in f32: kept, added up and given to hooks so.
#include <cmath>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/engine.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/recompute/checkpoint.h"
#include "reprise/core/memory.h"
#include "reprise/nn/init.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using namespace testing;

Tensor half(const Shape& shape, uint64_t seed, DType dtype = DType::bf16) {
  Generator generator(seed);
  return nn::normal_init(shape, 1, {}, &generator).to(dtype).to(test_device());
}

Tensor main_leaf(const Shape& shape, uint64_t seed, DType dtype = DType::bf16) {
  return half(shape, seed, dtype).set_requires_grad().set_grad_dtype(DType::f32);
}

TEST(MainGradient, AddsInF32) {
  for (bool is_main : {true, false}) {
    Tensor x = ones({3}, DType::bf16, test_device()).set_requires_grad();
    if (is_main) x.set_grad_dtype(DType::f32);
    EXPECT_EQ(x.grad_dtype(), is_main ? DType::f32 : DType::bf16);
    sum(x * 256.0).backward();
    sum(x).backward();
    EXPECT_EQ(x.grad().dtype(), x.grad_dtype());
    EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(3, is_main ? 257.0f : 256.0f));
    EXPECT_EQ(x.grad().storage()->category(), MemoryCategory::gradients);
  }
}

TEST(MainGradient, IsNotRoundedBehindACast) {
  const Tensor x = main_leaf({5}, 1);
  Generator generator(2);
  const Tensor factors = nn::normal_init({5}, 1, {}, &generator).to(test_device());
  sum(cast(x, DType::f32) * factors).backward();
  EXPECT_TRUE(same_bits(x.grad(), factors));
  EXPECT_EQ(x.grad().storage()->category(), MemoryCategory::gradients);
}

// The products of 16-bit numbers are exact in f32, and what they are added up in is too: no rounding to 16 bits at all.
TEST(MainGradient, OfManyMicroBatchesIsThatOfF64) {
  const int64_t rows = 5, in = 7, out = 3, batches = 64;
  Tensor weight = main_leaf({out, in}, 1), bias = main_leaf({out}, 2);
  std::vector<double> dweight(size_t(out * in)), dbias(size_t(out), 0);
  for (uint64_t batch = 0; batch < uint64_t(batches); ++batch) {
    const Tensor x = half({rows, in}, 100 + batch), dy = half({rows, out}, 200 + batch);
    linear(x, weight, bias).backward(dy);
    const std::vector<double> xs = x.to_vector<double>(), dys = dy.to_vector<double>();
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t o = 0; o < out; ++o) {
        dbias[size_t(o)] += dys[size_t(r * out + o)];
        for (int64_t i = 0; i < in; ++i)
          dweight[size_t(o * in + i)] += dys[size_t(r * out + o)] * xs[size_t(r * in + i)];
      }
  }
  EXPECT_TRUE(is_close(weight.grad().to_vector<double>(), dweight, 1e-6));
  EXPECT_TRUE(is_close(bias.grad().to_vector<double>(), dbias, 1e-6));
}

// A table tied to the output layer: two uses in one pass.
TEST(MainGradient, OfATiedTableAddsItsUsesInF32) {
  Tensor table = main_leaf({5, 4}, 1);
  const Tensor tokens = Tensor::from<int64_t>({1, 3, 3}, {3}, test_device());
  const Tensor dy = half({3, 5}, 2), rows = embedding(table, tokens);
  linear(rows, table).backward(dy);
  Tensor wide = table.detach().to(DType::f64).set_requires_grad();
  linear(embedding(wide, tokens), wide).backward(dy.to(DType::f64));
  // The gradient of the rows is rounded to bf16 once; all the rest is f32.
  EXPECT_TRUE(is_close(table.grad().to(DType::f64), wide.grad(), 2 * unit_roundoff(DType::bf16)));
  Tensor alone = main_leaf({5, 4}, 1);
  embedding(alone, tokens).backward(half({3, 4}, 3));
  EXPECT_EQ(alone.grad().dtype(), DType::f32);
}

TEST(MainGradient, OfAConvolutionsWeightIsNotRoundedTo16Bits) {
  for (bool transposed : {false, true}) {
    Tensor weight = main_leaf({4, 4, 3, 3}, 1);
    const Tensor x = half({2, 4, 7, 7}, 2);
    auto apply = [&](const Tensor& in, const Tensor& w) {
      return transposed ? conv_transpose2d(in, w, {}, {}) : conv2d(in, w, {}, {});
    };
    const Tensor y = apply(x, weight), dy = half(y.shape(), 3);
    y.backward(dy);
    Tensor wide = weight.detach().to(DType::f64).set_requires_grad();
    apply(x.to(DType::f64), wide).backward(dy.to(DType::f64));
    EXPECT_TRUE(is_close(weight.grad().to(DType::f64), wide.grad(), 1e-5)) << transposed;
  }
}

TEST(MainGradient, OfPatchesIsNotRoundedTo16Bits) {
  Tensor weight = main_leaf({5, 2, 2, 2}, 1), bias = main_leaf({5}, 4);
  const Tensor x = half({3, 2, 6, 6}, 2), y = patch_embed(x, weight, bias), dy = half(y.shape(), 3);
  y.backward(dy);
  Tensor wide = weight.detach().to(DType::f64).set_requires_grad(),
         wide_bias = bias.detach().to(DType::f64).set_requires_grad();
  patch_embed(x.to(DType::f64), wide, wide_bias).backward(dy.to(DType::f64));
  EXPECT_TRUE(is_close(weight.grad().to(DType::f64), wide.grad(), 1e-5));
  EXPECT_TRUE(is_close(bias.grad().to(DType::f64), wide_bias.grad(), 1e-5));
}

TEST(MainGradient, IsWhatHooksAndGradSee) {
  Tensor x = main_leaf({3}, 1);
  DType seen = DType::i64;
  auto remove = x.register_hook([&](const Tensor& gradient) {
    seen = gradient.dtype();
    return gradient * 2.0;
  });
  sum(x * x).backward();
  EXPECT_EQ(seen, DType::f32);
  EXPECT_TRUE(same_bits(x.grad(), x.detach().to(DType::f32) * 4.0));
  remove();
  EXPECT_EQ(autograd::grad({sum(x * x)}, {x})[0].dtype(), DType::f32);
  x.register_hook([](const Tensor& gradient) { return gradient.to(DType::bf16); });
  expect_error([&] { sum(x).backward(); }, {"a hook returned bf16(3,) for a gradient f32(3,)"});
}

TEST(MainGradient, IsDifferentiable) {
  Tensor x = main_leaf({3}, 1);
  const Tensor first = autograd::grad({sum(x * x * x)}, {x}, {}, {.create_graph = true})[0];
  const Tensor second = autograd::grad({sum(first)}, {x})[0];
  EXPECT_EQ(second.dtype(), DType::f32);
  EXPECT_TRUE(is_close(second, x.detach().to(DType::f32) * 6.0, 8 * unit_roundoff(DType::bf16)));
}

TEST(MainGradient, OfALeafThatIsTheRootIsItsOwn) {
  Tensor x = main_leaf({}, 1);
  x.backward();
  EXPECT_EQ(x.grad().dtype(), DType::f32);
  EXPECT_EQ(x.grad().item(), 1);
}

TEST(MainGradient, HasTheBitsOfARunWithoutRecompute) {
  for (auto mode : {recompute::CheckpointMode::non_reentrant, recompute::CheckpointMode::reentrant})
    for (bool as_argument : {true, false}) {
      auto gradient = [&](bool checkpointed) {
        Tensor weight = main_leaf({4, 4}, 1), x = half({3, 4}, 2);
        x.set_requires_grad();
        auto body = [&](const Tensor& w) { return gelu(linear(gelu(linear(x, w)), w)); };
        const recompute::CheckpointOptions options{.mode = mode};
        Tensor y = !checkpointed ? body(weight)
                   : as_argument ? checkpoint(body, weight, options)
                                 : checkpoint([&](const Tensor&) { return body(weight); }, x, options);
        sum(y * y).backward();
        return weight.grad();
      };
      EXPECT_TRUE(same_bits(gradient(true), gradient(false))) << int(mode) << as_argument;
    }
}

TEST(MainGradient, RefusesWhatDoesNotFitAndChangesNothing) {
  Tensor x = half({3}, 1).set_requires_grad();
  sum(x).backward();
  expect_error([&] { x.set_grad_dtype(DType::f32); }, {"set_grad_dtype", "a gradient in bf16", "not f32"});
  EXPECT_EQ(x.grad_dtype(), DType::bf16);
  EXPECT_EQ(x.grad().dtype(), DType::bf16);
  x.set_grad({});
  const Tensor y = x * 2.0;
  x.set_grad_dtype(DType::f32);
  expect_error([&] { sum(y).backward(); }, {"set_grad_dtype gave a leaf another"});
  EXPECT_FALSE(x.grad().defined());
  expect_error([&] { x.set_grad(half({3}, 1)); }, {"set_grad", "bf16(3,)", "whose gradient is f32"});
  expect_error([&] { y.set_grad_dtype(DType::f32); }, {"set_grad_dtype: only a leaf"});
  expect_error([&] { x.set_grad_dtype(DType::i64); }, {"cannot have gradients in i64"});
  expect_error([&] { ones({3}, DType::f32, test_device()).set_grad_dtype(DType::bf16); },
               {"set_grad_dtype", "bf16", "f32(3,)"});
  x.set_grad(ones({3}, DType::f32, test_device()));
  expect_error([&] { x.set_grad_dtype(DType::bf16); }, {"a gradient in f32"});
  x.set_data(half({3}, 2));  // keeps what was said of its gradients
  EXPECT_EQ(x.grad_dtype(), DType::f32);
}

}  // namespace
}  // namespace reprise
