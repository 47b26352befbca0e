// Blocks with grouped queries, rotary positions and a gated MLP, against simple operations in f64.
#include <cmath>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops/tensor/factories.h"
#include "reprise/autograd/recompute/checkpoint.h"
#include "reprise/nn/transformers/transformer_block.h"
#include "reprise/tests/nn/composite_gpt.h"
#include "reprise/tests/nn/small_models.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise::nn {
namespace {

using testing::expect_error;
using testing::is_close;
using testing::random_input;
using testing::randomize;
using testing::same_bits;
using testing::test_device;
using testing::weight_of;
using testing::Weights;

constexpr int64_t B = 2, T = 7, width = 20, heads = 4;
constexpr double theta = 50, eps = 1e-3;
constexpr double kTolerance = 5e-6;  // a dozen f32 roundings, of sums of up to 64 products

struct Heads {
  int64_t kv_heads, head_dim;
  bool rotary, norms;
};

MultiHeadAttentionOptions options_of(const Heads& h) {
  MultiHeadAttentionOptions options{.kv_heads = h.kv_heads, .head_dim = h.head_dim, .norm_eps = eps};
  if (h.norms) options.qk_norm = NormKind::rms;
  if (h.rotary)
    options.rotary = std::make_shared<RotaryTables>(T, h.head_dim, theta, RopeScaling(), test_device());
  return options;
}

// Channels i and i + D/2 of token t, turned by t theta^(-2 i / D): x (B, H, T, D).
Tensor turned(const Tensor& x) {
  const int64_t half = x.size(3) / 2;
  std::vector<double> cosines, sines;
  for (int64_t t = 0; t < x.size(2); ++t)
    for (int64_t i = 0; i < half; ++i) {
      const double angle = double(t) * std::pow(theta, -double(i) / double(half));
      cosines.push_back(std::cos(angle));
      sines.push_back(std::sin(angle));
    }
  const Tensor c = Tensor::from(cosines, {x.size(2), half}, x.device()),
               s = Tensor::from(sines, {x.size(2), half}, x.device());
  const Tensor a = slice(x, 3, 0, half), b = slice(x, 3, half, 2 * half);
  return concat({a * c - b * s, b * c + a * s}, 3);
}

// Each head of keys and values stands beside its group of queries.
Tensor composite_attention(const Weights& w, const std::string& prefix, const Tensor& x, const Heads& h) {
  const Tensor packed =
      composite::linear(x, w.at(prefix + "qkv.weight"), weight_of(w, prefix + "qkv.bias"), {});
  int64_t from = 0;
  auto next = [&](int64_t count, const std::string& norm) {
    Tensor y =
        reshape(slice(packed, 2, from, from + count * h.head_dim), {x.size(0), x.size(1), count, h.head_dim});
    from += count * h.head_dim;
    if (const Tensor scale = weight_of(w, prefix + norm + ".weight"); scale.defined())
      y = composite::rms_norm(y, scale, eps);
    y = transpose(y, 1, 2);
    if (h.rotary && !norm.empty()) y = turned(y);
    TensorList all;
    for (int64_t head = 0; head < heads; ++head)
      all.push_back(slice(y, 1, head * count / heads, head * count / heads + 1));
    return concat(all, 1);
  };
  const Tensor q = next(heads, "q_norm"), k = next(h.kv_heads, "k_norm"), v = next(h.kv_heads, "");
  const Tensor y = composite::attention(q, k, v, {.causal = true});
  return composite::linear(reshape(transpose(y, 1, 2), {x.size(0), x.size(1), heads * h.head_dim}),
                           w.at(prefix + "proj.weight"), weight_of(w, prefix + "proj.bias"), {});
}

Tensor composite_gated(const Weights& w, const std::string& prefix, const Tensor& x, Activation activation) {
  auto layer = [&](const std::string& name, const Tensor& y) {
    return composite::linear(y, w.at(prefix + name + ".weight"), weight_of(w, prefix + name + ".bias"), {});
  };
  return layer("fc2", composite::activate(layer("fc1_g", x), activation) * layer("fc1_x", x));
}

Weights f64_copies(const Module& module) {
  Weights copies = testing::f64_copies(module);
  for (auto& [name, copy] : copies) copy = copy.detach().to(test_device()).set_requires_grad();
  return copies;
}

// Result, dx and gradients of parameters.
void expect_same_function(Module& module, const std::function<Tensor(const Tensor&)>& got,
                          const std::function<Tensor(const Weights&, const Tensor&)>& want) {
  const Weights w = f64_copies(module);
  const Tensor x = random_input({B, T, width}).to(test_device()), leaf = x.clone().set_requires_grad();
  const Tensor x64 = x.to(DType::f64).set_requires_grad();
  const Tensor y = got(leaf), y64 = want(w, x64), dy = random_input(y.shape(), 99).to(test_device());
  EXPECT_TRUE(is_close(y, y64, kTolerance));
  y.backward(dy);
  y64.backward(dy.to(DType::f64));
  EXPECT_TRUE(is_close(leaf.grad(), x64.grad(), kTolerance)) << "dx";
  for (auto& [name, parameter] : module.named_parameters())
    EXPECT_TRUE(is_close(parameter.grad(), w.at(name).grad(), kTolerance)) << name;
}

TEST(GroupedBlock, AttentionAgreesWithItsComposite) {
  for (const Heads& h :
       {Heads{2, 5, false, false}, {1, 8, false, true}, {2, 6, true, true}, {4, 6, true, false}}) {
    SCOPED_TRACE(h.kv_heads);
    MultiHeadAttention attention(width, heads, options_of(h), test_device());
    randomize(attention);
    EXPECT_EQ(attention.qkv.weight.shape(), (Shape{(heads + 2 * h.kv_heads) * h.head_dim, width}));
    expect_same_function(
        attention, [&](const Tensor& x) { return attention(x); },
        [&](const Weights& w, const Tensor& x) { return composite_attention(w, "", x, h); });
  }
}

TEST(GroupedBlock, GatedMlpAgreesWithItsComposite) {
  for (Activation activation : {Activation::silu, Activation::gelu_tanh, Activation::none})
    for (bool bias : {true, false}) {
      Mlp net(width, 9, {.activation = activation, .gated = true, .bias = bias}, test_device());
      randomize(net);
      expect_same_function(
          net, [&](const Tensor& x) { return net(x, {.residual = x}); },
          [&](const Weights& w, const Tensor& x) { return x + composite_gated(w, "", x, activation); });
    }
}

// Hooks on the gate and on what it multiplies are heard.
TEST(GroupedBlock, GatedMlpCallsItsLayers) {
  Mlp net(width, 9, {.activation = Activation::silu, .gated = true}, test_device());
  int calls = 0;
  auto count = [&](const Tensor&, const Tensor&) { return ++calls, Tensor(); };
  for (Linear* layer : {&*net.fc1_g, &net.fc1, &net.fc2}) layer->register_forward_hook(count);
  net(random_input({B, T, width}).to(test_device()));
  EXPECT_EQ(calls, 3);
}

BlockOptions llamas(const Heads& h) {
  return {.kv_heads = h.kv_heads,
          .head_dim = h.head_dim,
          .gated = true,
          .bias = false,
          .norm = NormKind::rms,
          .norm_eps = eps,
          .qk_norm = h.norms,
          .rotary = options_of(h).rotary,
          .activation = Activation::silu};
}

TEST(GroupedBlock, AgreesWithItsComposite) {
  const Heads h{2, 6, true, true};
  TransformerBlock block(width, heads, llamas(h), test_device());
  randomize(block);
  EXPECT_EQ(block.mlp.fc1.weight.shape(), (Shape{64, width}));  // the multiple of 64 above 8/3 of the width
  expect_same_function(
      block, [&](const Tensor& x) { return block(x); },
      [&](const Weights& w, const Tensor& x) {
        auto normed = [&](const std::string& name, const Tensor& y) {
          return composite::rms_norm(y, w.at(name + ".weight"), eps);
        };
        const Tensor middle = x + composite_attention(w, "attn.", normed("norm1", x), h);
        return middle + composite_gated(w, "mlp.", normed("norm2", middle), Activation::silu);
      });
}

TEST(GroupedBlock, ChangesNoBitByRecompute) {
  BlockOptions options = llamas({2, 6, true, true});
  options.dropout = 0.2;
  TransformerBlock block(width, heads, options, test_device());
  randomize(block);
  auto gradients = [&](const recompute::CheckpointOptions* of_checkpoint) {
    manual_seed(4);
    block.zero_grad();
    const Tensor x = random_input({B, T, width}).to(test_device()).set_requires_grad();
    auto call = [&](const Tensor& in) { return block(in); };
    const Tensor y = of_checkpoint ? checkpoint(call, std::tuple{x}, *of_checkpoint) : block(x);
    square(y).sum().backward();
    TensorList all{y.detach(), x.grad()};
    for (const Tensor& p : block.parameters()) all.push_back(p.grad());
    return all;
  };
  const TensorList want = gradients(nullptr);
  for (auto mode : {recompute::CheckpointMode::non_reentrant, recompute::CheckpointMode::reentrant}) {
    const recompute::CheckpointOptions of_mode{.mode = mode};
    const TensorList got = gradients(&of_mode);
    EXPECT_TRUE(same_bits(got, want));
  }
}

TEST(GroupedBlock, StepsThroughACacheAsThroughTheSequence) {
  const Heads h{2, 6, true, true};
  TransformerBlock block(width, heads, llamas(h), test_device());
  randomize(block);
  block.eval();
  NoGrad unrecorded;
  const Tensor x = random_input({B, T, width}).to(test_device()), whole = block(x);
  const RotaryTables tables(T, h.head_dim, theta, {}, test_device());
  KvCache cache(1, B, T);
  auto step = [&](int64_t from, int64_t to) {
    TensorList positions;
    for (int64_t row = 0; row < B; ++row) positions.push_back(arange(from, to).reshape({1, to - from}));
    const Tensor y =
        block.step(slice(x, 1, from, to), {cache, 0, 0, tables.at(concat(positions, 0).to(test_device()))});
    cache.advance(0, B, to - from);
    return y;
  };
  EXPECT_TRUE(is_close(step(0, 4), slice(whole, 1, 0, 4), kTolerance));
  for (int64_t t = 4; t < T; ++t)
    EXPECT_TRUE(is_close(step(t, t + 1), slice(whole, 1, t, t + 1), kTolerance)) << t;
  expect_error(
      [&] {
        block.step(slice(x, 1, 0, 1), {cache, 0, 0});
      },
      {"MultiHeadAttention: step with rotary needs the angles"});
}

TEST(GroupedBlock, SaysWhatDoesNotFit) {
  expect_error([] { MultiHeadAttention(12, 4, {.kv_heads = 3}); },
               {"MultiHeadAttention: 4 heads cannot share 3 of keys and values"});
  expect_error([] { MultiHeadAttention(12, 4, {.kv_heads = -1}); }, {"cannot share -1"});
  expect_error([] { MultiHeadAttention(12, 4, {.head_dim = -2}); }, {"head_dim must be at least 0, got -2"});
  const auto tables = std::make_shared<RotaryTables>(5, 6);
  expect_error([&] { MultiHeadAttention(16, 4, {.rotary = tables}); },
               {"MultiHeadAttention: rotary is of 6 channels, a head has 4"});
  const auto rope = std::make_shared<Rope>(Grid{2, 2}, 0, 4);
  expect_error(
      [&] { MultiHeadAttention(24, 6, {.rope = rope, .rotary = std::make_shared<RotaryTables>(4, 4)}); },
      {"rope and rotary would both turn"});
  MultiHeadAttention attention(24, 4, {.rotary = tables});
  expect_error([&] { attention(random_input({1, 6, 24})); }, {"RotaryTables: 6 tokens, the tables hold 5"});
  expect_error([] { RotaryTables(5, 7); }, {"RotaryTables: a head_dim of 7, wanted an even number"});
  expect_error([] { RotaryTables(0, 8); }, {"RotaryTables: a context of 0 tokens"});
  expect_error([] { RotaryTables(5, 8, -1); }, {"RotaryTables: rope_theta must be above 0, got -1"});
  expect_error([&] { tables->at(arange(3)); }, {"RotaryTables: positions must be (B, T), got (3,)"});
}

}  // namespace
}  // namespace reprise::nn
