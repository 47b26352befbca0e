// The transformer block and its halves against the same in simple operations and f64.
#include "reprise/nn/transformers/transformer_block.h"

#include <cmath>

#include "reprise/autograd/engine.h"
#include "reprise/core/memory.h"
#include "reprise/tests/nn/composite_gpt.h"
#include "reprise/tests/nn/small_models.h"
#include "reprise/tests/support/compare.h"

namespace reprise::nn {
namespace {

using testing::composite_attention;
using testing::composite_block;
using testing::composite_mlp;
using testing::expect_error;
using testing::f64_copies;
using testing::is_close;
using testing::random_input;
using testing::randomize;
using testing::same_bits;
using testing::Weights;

// A dozen f32 roundings, of sums of up to 60 products; compared to the tensor's largest element.
constexpr double kTolerance = 5e-6;

// Output, input gradient and every parameter gradient of `got`, against `want` in f64 with its weights `w`.
void expect_same_function(Module& module, const Tensor& x, const std::function<Tensor(const Tensor&)>& got,
                          const std::function<Tensor(const Weights&, const Tensor&)>& want) {
  Weights w = f64_copies(module);
  Tensor x64 = x.to(DType::f64);
  Tensor leaf = x.clone().set_requires_grad();
  x64.set_requires_grad();
  Tensor y = got(leaf), y64 = want(w, x64);
  EXPECT_TRUE(is_close(y, y64, kTolerance));
  Tensor dy = random_input(y.shape(), 99);
  y.backward(dy);
  y64.backward(dy.to(DType::f64));
  EXPECT_TRUE(is_close(leaf.grad(), x64.grad(), kTolerance)) << "dx";
  for (auto& [name, parameter] : module.named_parameters())
    EXPECT_TRUE(is_close(parameter.grad(), w.at(name).grad(), kTolerance)) << "gradient of " << name;
}

TEST(MultiHeadAttention, AgreesWithItsComposite) {
  for (bool causal : {true, false})
    for (bool bias : {true, false}) {
      MultiHeadAttention attention(15, 3, {.causal = causal, .bias = bias});
      randomize(attention);
      Tensor residual = random_input({2, 7, 15}, 5);
      expect_same_function(
          attention, random_input({2, 7, 15}),
          [&](const Tensor& x) { return attention(x, {.residual = residual}); },
          [&](const Weights& w, const Tensor& x) {
            return composite_attention(w, "", x, 3, causal) + residual.to(DType::f64);
          });
    }
}

TEST(MultiHeadAttention, NeedsWidthToBeAMultipleOfHeads) {
  expect_error([] { MultiHeadAttention(16, 3); }, {"width 16", "3 heads"});
  expect_error([] { MultiHeadAttention(16, 0); }, {"0 heads"});
}

TEST(TransformerBlock, RefusesOptionsThatItCannotHeed) {
  expect_error([] { TransformerBlock(8, 2, {.hidden = -1}); }, {"hidden", "-1"});
  expect_error([] { TransformerBlock(8, 2, {.init_stddev = -0.5}); }, {"init_stddev", "-0.5"});
  expect_error([] { TransformerBlock(8, 2, {.output_stddev = -0.5}); }, {"output_stddev", "-0.5"});
  expect_error([] { MultiHeadAttention(8, 2, {.dropout = 1}); }, {"dropout", "1"});
}

TEST(Mlp, AgreesWithItsComposite) {
  for (Activation activation : {Activation::gelu_tanh, Activation::gelu, Activation::relu})
    for (int64_t hidden : {20, 7}) {
      nn::Mlp net(5, hidden, {.activation = activation});
      randomize(net);
      expect_same_function(
          net, random_input({2, 7, 5}), [&](const Tensor& x) { return net(x, {.residual = x}); },
          [&](const Weights& w, const Tensor& x) { return x + composite_mlp(w, "", x, activation); });
    }
}

TEST(TransformerBlock, AgreesWithItsComposite) {
  for (bool bias : {true, false}) {
    TransformerBlock block(15, 5, {.causal = bias, .bias = bias});
    EXPECT_EQ(block.mlp.fc1.weight.size(0), 4 * 15);
    randomize(block);
    expect_same_function(
        block, random_input({3, 7, 15}), [&](const Tensor& x) { return block(x); },
        [&](const Weights& w, const Tensor& x) { return composite_block(w, "", x, 5, bias); });
  }
}

// A branch with dropout scales and adds the residual by itself; in evaluation and without dropout that joins the
// product. A dropout of one in 10^9 keeps every element of these few.
TEST(TransformerBlock, FusedAndUnfusedBranchesAreTheSameFunction) {
  for (double layer_scale : {0.0, 0.3})
    for (double drop_path : {0.0, 0.5}) {
      TransformerBlock fused(16, 2, {.drop_path = drop_path, .layer_scale = layer_scale});
      TransformerBlock unfused(16, 2, {.dropout = 1e-9, .drop_path = drop_path, .layer_scale = layer_scale});
      randomize(fused);
      unfused.load_state_dict(fused.state_dict());
      Tensor x = random_input({9, 3, 16});
      if (drop_path == 0) { EXPECT_TRUE(is_close(unfused(x), fused(x), kTolerance)); }
      unfused.eval(), fused.eval();
      EXPECT_TRUE(same_bits(unfused(x).detach(), fused(x).detach()));
    }
}

// gamma, DropPath and the sum behind each branch, with the draws that DropPath as a layer makes.
TEST(TransformerBlock, ScalesAndDropsItsBranches) {
  TransformerBlock block(16, 2, {.drop_path = 0.5, .layer_scale = 0.3});
  randomize(block);
  Tensor x = random_input({9, 3, 16});
  DropPath drop(0.5);
  auto by_hand = [&] {
    Tensor middle = x + drop(block.attn(block.norm1(x)) * block.ls1->gamma);
    return middle + drop(block.mlp(block.norm2(middle)) * block.ls2->gamma);
  };
  auto run = [&](const std::function<Tensor()>& forward) {
    manual_seed(5);
    block.zero_grad();
    x.set_grad({});
    Tensor y = forward();
    square(y).sum().backward();
    TensorList got{y.detach(), x.grad()};
    for (const auto& [name, p] : block.named_parameters()) got.push_back(p.grad());
    return got;
  };
  x.set_requires_grad();
  TensorList want = run(by_hand), got = run([&] { return block(x); });
  for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(is_close(got[i], want[i], kTolerance)) << i;
}

// Between forward and backward a block has no more activations for LayerScale and DropPath than a number per sample.
TEST(TransformerBlock, KeepsNothingForItsScales) {
  auto held = [](double layer_scale, double drop_path) {
    TransformerBlock block(32, 2, {.drop_path = drop_path, .layer_scale = layer_scale});
    Tensor x = random_input({8, 16, 32});
    auto activations = [] {
      return int64_t(allocator(Device::cpu()).stats().by_category[size_t(MemoryCategory::activations)]);
    };
    const int64_t before = activations();
    Tensor y = block(x);
    return activations() - before;
  };
  const int64_t numbers_per_sample = 2 * 1024;  // two tensors, each of them in a block of memory of its own
  EXPECT_LE(held(0.1, 0.5), held(0, 0) + numbers_per_sample);
}

TEST(TransformerBlock, DropoutIsOffInEvaluationAndOnWhileTraining) {
  TransformerBlock dropped(16, 2, {.dropout = 0.2}), plain(16, 2);
  randomize(plain);
  dropped.load_state_dict(plain.state_dict());
  Tensor x = random_input({3, 9, 16});
  manual_seed(3);
  Tensor first = dropped(x), second = dropped(x);
  EXPECT_FALSE(same_bits(first.detach(), second.detach()));
  manual_seed(3);
  EXPECT_TRUE(same_bits(dropped(x).detach(), first.detach()));
  dropped.eval();
  EXPECT_TRUE(same_bits(dropped(x).detach(), plain(x).detach()));
}

// Dropout of the attention probabilities, of attention's output and of the MLP's: three places, three draws.
TEST(TransformerBlock, DrawsOnceForEachPlaceOfDropout) {
  TransformerBlock block(16, 2, {.dropout = 0.2});
  uint64_t before = default_generator().state().offset;
  block(random_input({3, 9, 16}));
  EXPECT_EQ(default_generator().state().offset - before, 3u);
}

TEST(TransformerBlock, DropPathSkipsBothHalvesOfASample) {
  constexpr int64_t samples = 400;
  TransformerBlock block(4, 1, {.drop_path = 0.5});
  randomize(block);
  Tensor x = random_input({1, 3, 4}).expand({samples, 3, 4}).contiguous();
  manual_seed(4);
  std::vector<double> in = x.to_vector<double>(), out = block(x).detach().to_vector<double>();
  int untouched = 0;
  for (size_t s = 0; s < samples; ++s)
    untouched += std::equal(in.begin() + std::ptrdiff_t(s * 12), in.begin() + std::ptrdiff_t(s * 12 + 12),
                            out.begin() + std::ptrdiff_t(s * 12));
  EXPECT_NEAR(untouched / double(samples), 0.25, 5 * std::sqrt(0.25 * 0.75 / samples));  // 5 deviations
}

}  // namespace
}  // namespace reprise::nn
