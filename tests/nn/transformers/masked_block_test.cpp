// Self-attention and blocks under masks and windows, against simple operations in f64; and in checkpoints.
#include <cmath>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/autograd/recompute/checkpoint.h"
#include "reprise/nn/transformers/transformer_block.h"
#include "reprise/tests/nn/composite_gpt.h"
#include "reprise/tests/nn/small_models.h"
#include "reprise/tests/support/compare.h"

namespace reprise::nn {
namespace {

using testing::composite_mlp;
using testing::composite_norm;
using testing::expect_error;
using testing::f64_copies;
using testing::is_close;
using testing::random_input;
using testing::randomize;
using testing::same_bits;
using testing::weight_of;
using testing::Weights;

constexpr int64_t B = 2, T = 9, heads = 3, width = 24;
constexpr int64_t padded = 2;        // fewer than the tokens of any window here, so that each token sees some
constexpr double kTolerance = 5e-6;  // a dozen f32 roundings, of sums of up to 96 products

// Of sample 1 the last tokens are padding.
Tensor padding() { return arange(T) < Tensor::from<int64_t>({T, T - padded}, {B, 1, 1, 1}); }

// Numbers for each head.
Tensor biases() {
  Tensor numbers = reshape(arange(heads * T * T), {heads, T, T}).to(DType::f32);
  return sin(numbers);
}

// A mask of bits as numbers to add, in f64.
Tensor added_for(const Tensor& mask) {
  if (mask.dtype() != DType::boolean) return mask.to(DType::f64);
  return where(mask, zeros({1}, DType::f64), full({1}, -1e30, DType::f64));
}

// What MultiHeadAttentionOptions say beside it, key by key.
Tensor seen_by(bool causal, int64_t window) {
  std::vector<uint8_t> seen;
  for (int64_t t = 0; t < T; ++t)
    for (int64_t s = 0; s < T; ++s)
      seen.push_back((!causal || s <= t) && (window == 0 || std::abs(t - s) < window));
  return Tensor::from(seen, {T, T}).to(DType::boolean);
}

// The attention half of a block in f64, projections included.
Tensor composite_attention(const Weights& w, const std::string& prefix, const Tensor& x,
                           const Tensor& added) {
  const int64_t length = x.size(1), dim = width / heads;
  const Tensor qkv = reshape(composite::linear(x, w.at(prefix + "qkv.weight"), w.at(prefix + "qkv.bias"), {}),
                             {x.size(0), length, 3, heads, dim});
  auto part = [&](int64_t i, const char* norm) {
    Tensor y = select(qkv, 2, i);
    if (Tensor scale = weight_of(w, prefix + norm + ".weight"); scale.defined())
      y = composite::rms_norm(y, scale, 1e-5);
    return transpose(y, 1, 2);
  };
  const Tensor q = part(0, "q_norm"), k = part(1, "k_norm"), v = part(2, "no_norm");
  const Tensor scores = matmul(q, transpose(k, 2, 3)) / std::sqrt(double(dim)) + added;
  const Tensor y = reshape(transpose(matmul(composite::softmax(scores), v), 1, 2), x.shape());
  return composite::linear(y, w.at(prefix + "proj.weight"), w.at(prefix + "proj.bias"), {});
}

// Result, dx and gradients of parameters.
void expect_same_function(Module& module, const std::function<Tensor(const Tensor&)>& got,
                          const std::function<Tensor(const Weights&, const Tensor&)>& want) {
  const Weights w = f64_copies(module);
  const Tensor x = random_input({B, T, width}), leaf = x.clone().set_requires_grad();
  const Tensor x64 = x.to(DType::f64).set_requires_grad();
  const Tensor y = got(leaf), y64 = want(w, x64), dy = random_input(y.shape(), 99);
  EXPECT_TRUE(is_close(y, y64, kTolerance));
  module.zero_grad();
  y.backward(dy);
  y64.backward(dy.to(DType::f64));
  EXPECT_TRUE(is_close(leaf.grad(), x64.grad(), kTolerance)) << "dx";
  for (auto& [name, parameter] : module.named_parameters())
    EXPECT_TRUE(is_close(parameter.grad(), w.at(name).grad(), kTolerance)) << name;
}

TEST(MaskedBlock, AttentionAgreesWithItsComposite) {
  for (const MultiHeadAttentionOptions& options : {MultiHeadAttentionOptions{.causal = true},
                                                   {.causal = false, .window = 3},
                                                   {.causal = true, .window = 4},
                                                   {.causal = true, .window = 4, .qk_norm = NormKind::rms}})
    for (const Tensor& mask : {Tensor(), padding(), biases()}) {
      MultiHeadAttention attention(width, heads, options);
      randomize(attention);
      Tensor added = added_for(seen_by(options.causal, options.window));
      if (mask.defined()) added = added + added_for(mask);
      expect_same_function(
          attention, [&](const Tensor& x) { return attention(x, mask); },
          [&](const Weights& w, const Tensor& x) { return composite_attention(w, "", x, added); });
    }
}

TEST(MaskedBlock, RotaryPositionsGoWithMasks) {
  const auto rope = std::make_shared<Rope>(Grid{3, 3}, 0, width / heads);
  MultiHeadAttention attention(width, heads, {.causal = false, .window = 5, .rope = rope});
  randomize(attention);
  // Its tables are f32, and so is this reference.
  const Tensor x = random_input({B, T, width});
  const TensorList parts = attention.queries_keys_values(x);
  const Tensor bits = seen_by(false, 5) & padding();
  const Tensor scores = matmul(parts[0], transpose(parts[1], 2, 3)) / std::sqrt(double(width / heads));
  const Tensor y = matmul(composite::softmax(scores + added_for(bits).to(DType::f32)), parts[2]);
  const Tensor want = attention.proj(reshape(transpose(y, 1, 2), x.shape()));
  EXPECT_TRUE(is_close(attention(x, padding()), want, kTolerance));
}

TEST(MaskedBlock, BlockAgreesWithItsComposite) {
  for (int64_t window : {0, 3}) {
    TransformerBlock block(width, heads, {.causal = true, .window = window, .layer_scale = 0.5});
    randomize(block);
    const Tensor added = added_for(seen_by(true, window)) + added_for(padding());
    expect_same_function(
        block, [&](const Tensor& x) { return block(x, padding()); },
        [&](const Weights& w, const Tensor& x) {
          const Tensor normed = composite_norm(w, "norm1.", x);
          const Tensor middle = x + composite_attention(w, "attn.", normed, added) * w.at("ls1.gamma");
          return middle + composite_mlp(w, "mlp.", composite_norm(w, "norm2.", middle)) * w.at("ls2.gamma");
        });
  }
}

// A dropout of one in 10^9 keeps every element of these few, and its branches are not fused with the sum.
TEST(MaskedBlock, BranchesWithDropoutSeeTheMaskToo) {
  TransformerBlock fused(width, heads, {.causal = false, .window = 4}),
      dropping(width, heads, {.causal = false, .window = 4, .dropout = 1e-9});
  randomize(fused);
  dropping.load_state_dict(fused.state_dict());
  const Tensor x = random_input({B, T, width});
  for (const Tensor& mask : {Tensor(), padding(), biases()})
    EXPECT_TRUE(is_close(dropping(x, mask), fused(x, mask), kTolerance));
}

// Padding changes no token before it, whatever stands there, and of whole rows of it nothing is NaN.
TEST(MaskedBlock, DoesNotSeePadding) {
  TransformerBlock block(width, heads, {.causal = false});
  randomize(block);
  const Tensor x = random_input({B, T, width});
  const Tensor others = concat({slice(x, 1, 0, T - padded), random_input({B, padded, width}, 8)}, 1);
  const Tensor a = block(x, padding()), b = block(others, padding());
  auto real = [](const Tensor& y) { return y.slice(0, 1, 2).slice(1, 0, T - padded); };
  EXPECT_TRUE(same_bits(real(a), real(b)));
  EXPECT_FALSE(is_close(a.slice(0, 0, 1), b.slice(0, 0, 1), 1e-3));
  EXPECT_TRUE(is_close(real(a), block(x.slice(0, 1, 2).slice(1, 0, T - padded)), kTolerance));
  EXPECT_TRUE(all(isfinite(block(x, zeros({T, T}, DType::boolean)))));
}

// Of a block with dropout: the result, dx, what a mask of numbers gets, and the gradients of parameters.
TensorList gradients_of(TransformerBlock& block, bool trained, bool autocast,
                        const recompute::CheckpointOptions* options) {
  manual_seed(4);
  block.zero_grad();
  std::optional<amp::Autocast> scope;
  if (autocast) scope.emplace(Device::cpu(), DType::bf16);
  const Tensor x = random_input({B, T, width}).set_requires_grad();
  const Tensor mask = trained ? biases().set_requires_grad() : padding();
  auto call = [&](const Tensor& in, const Tensor& seen) { return block(in, seen); };
  const Tensor y = options ? checkpoint(call, std::tuple{x, mask}, *options) : block(x, mask);
  scope.reset();
  square(y.to(DType::f32)).sum().backward();
  TensorList all{y.detach(), x.grad()};
  if (trained) all.push_back(mask.grad());
  for (const Tensor& p : block.parameters()) all.push_back(p.grad());
  return all;
}

// In both modes, the mask an input of the checkpoint.
TEST(MaskedBlock, ChangesNoBitByRecompute) {
  for (bool trained : {false, true})
    for (bool autocast : {false, true})
      for (int64_t window : {0, 4}) {
        TransformerBlock block(width, heads, {.causal = true, .window = window, .dropout = 0.2});
        randomize(block);
        const TensorList want = gradients_of(block, trained, autocast, nullptr);
        for (auto mode : {recompute::CheckpointMode::non_reentrant, recompute::CheckpointMode::reentrant}) {
          const recompute::CheckpointOptions options{.mode = mode};
          const TensorList got = gradients_of(block, trained, autocast, &options);
          EXPECT_TRUE(same_bits(got, want))
              << "window " << window << " trained " << trained << " autocast " << autocast;
        }
      }
}

TEST(MaskedBlock, StepsOfACacheSeeTheWindow) {
  NoGrad unrecorded;
  TransformerBlock block(width, heads, {.causal = true, .window = 3});
  randomize(block);
  block.eval();
  const Tensor x = random_input({B, T, width}), whole = block(x);
  KvCache cache(1, B, T);
  int64_t seen = 0;
  for (int64_t count : {2, 1, 4, 1, 1}) {
    const Tensor y = block.step(slice(x, 1, seen, seen + count), {cache, 0, 0});
    EXPECT_TRUE(is_close(y, slice(whole, 1, seen, seen + count), kTolerance)) << seen;
    cache.advance(0, B, count);
    seen += count;
  }
}

TEST(MaskedBlock, SaysWhatDoesNotFit) {
  expect_error([] { MultiHeadAttention(16, 2, {.window = -1}); },
               {"MultiHeadAttention: window must be at least 0, got -1"});
  TransformerBlock block(width, heads);
  const Tensor x = random_input({B, T, width});
  expect_error([&] { block(x, ones({T, T + 1}, DType::boolean)); }, {"masked_attention: shapes (9, 10)"});
  struct Outer : Module {
    TransformerBlock block{width, heads};
    Outer() { register_module("block", block); }
  } outer;
  outer.replace("block.attn", std::make_shared<Linear>(width, width));
  expect_error([&] { outer.block(x, padding()); }, {"Linear: takes x alone, and was given bool ("});
  outer.replace("block", std::make_shared<Linear>(width, width));
  expect_error([&] { outer.block(x, padding()); }, {"Linear: takes x alone, and was given bool ("});
  EXPECT_TRUE(outer.block(x, {}).defined());
  expect_error([&] { block.call_with(x, {}); }, {"TransformerBlock: takes a mask beside x, got 0 tensors"});
  expect_error(
      [&] {
        block.attn.call_with(x, {x, x});
      },
      {"MultiHeadAttention: takes a mask beside x, got 2 tensors"});
}

/// Around a layer, which gets what is beside x.
struct Doubled : Layer {
  std::shared_ptr<Layer> inner;
  explicit Doubled(std::shared_ptr<Layer> of) : inner(std::move(of)) { register_module("inner", *inner); }
  Tensor forward(const Tensor& x) override { return (*inner)(x)*2.0; }
  Tensor forward_with(const Tensor& x, const TensorList& beside) override {
    return inner->call_with(x, beside) * 2.0;
  }
};

TEST(MaskedBlock, ALayerInItsPlaceTakesTheMask) {
  struct Outer : Module {
    TransformerBlock block{width, heads};
    Outer() { register_module("block", block); }
  } outer;
  auto attention =
      std::make_shared<MultiHeadAttention>(width, heads, MultiHeadAttentionOptions{.causal = false});
  randomize(*attention);
  randomize(outer.block);
  const Tensor x = random_input({B, T, width}), mask = padding();
  // The block, written out.
  const Tensor middle = x + (*attention)(outer.block.norm1(x), mask) * 2.0;
  const Tensor want = middle + outer.block.mlp(outer.block.norm2(middle));
  outer.replace("block.attn", std::make_shared<Doubled>(attention));
  int calls = 0;
  attention->register_forward_hook([&](const Tensor&, const Tensor&) { return ++calls, Tensor(); });
  EXPECT_TRUE(is_close(outer.block(x, mask), want, kTolerance));
  EXPECT_EQ(calls, 1);
}

// Hooks that look change no bit; what they return goes on under the mask.
TEST(MaskedBlock, HooksRunUnderAMask) {
  TransformerBlock block(width, heads, {.layer_scale = 0.5});
  randomize(block);
  const Tensor mask = padding(), x = random_input({B, T, width}).set_requires_grad(true);
  const Tensor want = block(x, mask);
  const Tensor dx = grad({(want * want).sum()}, {x})[0];

  std::vector<std::string> seen;
  Tensor attended, into_block, of_block, dx_seen;
  block.register_forward_pre_hook([&](const Tensor&) { return seen.push_back("block"), Tensor(); });
  block.attn.register_forward_pre_hook([&](const Tensor&) { return seen.push_back("attn"), Tensor(); });
  block.attn.register_forward_hook([&](const Tensor&, const Tensor& y) {
    seen.push_back("after attn");
    attended = y.detach();
    return Tensor();
  });
  block.register_forward_hook([&](const Tensor& in, const Tensor& y) {
    seen.push_back("after block");
    into_block = in.detach();
    of_block = y.detach();
    return Tensor();
  });
  block.register_full_backward_hook([&](const Tensor& d, const Tensor&) { return dx_seen = d, Tensor(); });
  const Tensor y = block(x, mask);
  EXPECT_EQ(seen, (std::vector<std::string>{"block", "attn", "after attn", "after block"}));
  EXPECT_TRUE(is_close(y, want, kTolerance));
  EXPECT_TRUE(same_bits(into_block, x.detach()));
  EXPECT_TRUE(same_bits(of_block, y.detach()));
  EXPECT_TRUE(is_close(grad({(y * y).sum()}, {x})[0], dx, kTolerance));
  EXPECT_TRUE(is_close(dx_seen, dx, kTolerance));
  {
    TransformerBlock plain(width, heads, {.layer_scale = 0.5});
    plain.load_state_dict(block.state_dict());
    EXPECT_TRUE(is_close(attended, plain.attn(plain.norm1(x), mask), kTolerance));
    EXPECT_FALSE(is_close(attended, plain.attn(plain.norm1(x)), kTolerance)) << "the mask counts";
    block.register_forward_pre_hook([](const Tensor& in) { return in * 0.5; });
    EXPECT_TRUE(is_close(block(x, mask), plain(x * 0.5, mask), kTolerance));
  }
}

}  // namespace
}  // namespace reprise::nn
