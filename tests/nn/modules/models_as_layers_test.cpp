// Attention, MLPs and models as layers: hooks and replacements are part of each call, fused or not, and what passes over them refuses.
#include "reprise/nn/models/feature_pyramid.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/nn/models/jepa.h"
#include "reprise/nn/models/llama.h"
#include "reprise/nn/models/resnet.h"
#include "reprise/nn/models/unet.h"
#include "reprise/nn/models/vit.h"
#include "reprise/nn/transformers/cross_attention.h"
#include "reprise/nn/transformers/kv_cache.h"
#include "reprise/tests/autograd/recompute/support.h"
#include "reprise/tests/nn/small_models.h"

namespace reprise::nn {
namespace {

constexpr double fused = 1e-6;       // one rounding of f32 where two operations have two
constexpr double kTolerance = 1e-5;  // some dozen such roundings, forward and backward

using testing::expect_error;
using testing::is_close;
using testing::kModes;
using testing::leaf;
using testing::numbers;
using testing::same_bits;
using testing::test_device;

BlockOptions scaled() { return {.causal = false, .layer_scale = 0.5}; }

// The block, written with calls of its parts.
Tensor by_calls(const TransformerBlock& block, const Tensor& x, double of_attention, double of_mlp) {
  const Tensor middle = x + block.attn(block.norm1(x)) * of_attention * block.ls1->gamma;
  return middle + block.mlp(block.norm2(middle)) * of_mlp * block.ls2->gamma;
}

TEST(ModelsAsLayers, HooksOnBothHalvesOfABlockCountWhereTheyAreFused) {
  for (const int mode : {-1, 0, 1}) {
    TransformerBlock block(8, 2, scaled(), test_device());
    const Tensor x = leaf({2, 5, 8}), twin = leaf({2, 5, 8});
    const Tensor want = by_calls(block, twin, 3, -2);
    sum(square(want)).backward();
    const Tensor dproj = block.attn.proj.weight.grad(), dfc1 = block.mlp.fc1.weight.grad();
    block.zero_grad();
    int seen = 0;
    block.attn.register_forward_hook([&](const Tensor&, const Tensor& y) { return ++seen, y * 3.0; });
    block.mlp.register_forward_pre_hook([&](const Tensor&) { return ++seen, Tensor(); });
    block.mlp.register_forward_hook([&](const Tensor&, const Tensor& y) { return ++seen, y * -2.0; });
    const Tensor y = mode < 0
                         ? block(x)
                         : checkpoint([&](const Tensor& in) { return block(in); }, x, {.mode = kModes[mode]});
    EXPECT_EQ(seen, 3);
    sum(square(y)).backward();
    EXPECT_TRUE(is_close(y, want, kTolerance));
    EXPECT_TRUE(is_close(x.grad(), twin.grad(), kTolerance));
    EXPECT_TRUE(is_close(block.attn.proj.weight.grad(), dproj, kTolerance));
    EXPECT_TRUE(is_close(block.mlp.fc1.weight.grad(), dfc1, kTolerance));
  }
}

TEST(ModelsAsLayers, HalvesOfABlockCanBeReplacedAndStandInAChain) {
  struct Halves : Layer {
    Tensor forward(const Tensor& x) override { return x * 0.5; }
  };
  TransformerBlock block(8, 2, scaled(), test_device());
  const Tensor x = numbers({2, 5, 8});
  block.replace("attn", std::make_shared<Halves>());
  block.replace("mlp", std::make_shared<Halves>());
  const Tensor middle = x + block.norm1(x) * 0.5 * block.ls1->gamma;
  EXPECT_TRUE(is_close(block(x), middle + block.norm2(middle) * 0.5 * block.ls2->gamma, fused));

  Sequential chain;
  auto& attention = chain.add<MultiHeadAttention>(8, 2, MultiHeadAttentionOptions(), test_device());
  auto& mlp = chain.add<Mlp>(8, 12, MlpOptions(), test_device());
  EXPECT_TRUE(same_bits(chain(x), mlp(attention(x))));
  EXPECT_TRUE(is_close(mlp(x, {.residual = x}), mlp.forward(x) + x, fused));
  EXPECT_TRUE(is_close(attention(x, {.residual = x}), attention(x) + x, fused));
}

TEST(ModelsAsLayers, DropoutOfABlockKeepsItsDraws) {
  TransformerBlock block(8, 2, {.dropout = 0.3, .drop_path = 0.3}, test_device());
  const Tensor x = numbers({6, 5, 8});
  manual_seed(4);
  const Tensor want = block(x);
  block.attn.register_forward_hook([](const Tensor&, const Tensor&) { return Tensor(); });
  block.mlp.register_forward_hook([](const Tensor&, const Tensor&) { return Tensor(); });
  manual_seed(4);
  EXPECT_TRUE(is_close(block(x), want, fused));
}

// A hook that doubles what the model makes, and the model in a chain.
template <class Model>
void expect_layer(const auto& options, const Tensor& x) {
  SCOPED_TRACE(Model(options, test_device()).class_name());
  Sequential chain;
  auto& model = chain.add<Model>(options, test_device());
  model.eval();
  const Tensor want = model(x);
  EXPECT_TRUE(same_bits(chain(x), want));
  const Model& fixed = model;
  EXPECT_TRUE(same_bits(fixed(x), want));
  auto remove = model.register_forward_hook([](const Tensor&, const Tensor& y) { return y * 2.0; });
  EXPECT_TRUE(same_bits(chain(x), want * 2.0));
  EXPECT_TRUE(same_bits(fixed(x), want * 2.0));
  if constexpr (requires { model.features(x); })
    expect_error([&] { model.features(x); }, {"features", "hooks"});
  if constexpr (requires { model.next_logits(x); }) {
    EXPECT_TRUE(same_bits(model.next_logits(x), select(want * 2.0, 1, -1)));
  }
  remove();
  EXPECT_TRUE(same_bits(chain(x), want));
  chain.replace("0", std::make_shared<Identity>());
  EXPECT_TRUE(same_bits(chain(x), x));
}

TEST(ModelsAsLayers, TakeHooksAndPlacesInChains) {
  const Tensor tokens = testing::random_tokens({2, 7}, 23, 4).to(test_device());
  expect_layer<Gpt>(testing::odd_gpt(), tokens);
  expect_layer<Llama>(
      LlamaOptions{.vocab_size = 23, .context = 11, .layers = 1, .heads = 4, .kv_heads = 2, .width = 16},
      tokens);
  const VitOptions vit{
      .image = 8, .patch = 4, .classes = 5, .width = 16, .layers = 1, .heads = 2, .rope = true};
  expect_layer<Vit>(vit, numbers({3, 3, 8, 8}));
  expect_layer<Vit>(patch_encoder(vit), numbers({3, 3, 8, 8}));
  expect_layer<ResNet>(ResNetOptions{.classes = 5, .width = 4, .blocks = {1, 1}, .stem = ResNetStem::cifar},
                       numbers({3, 3, 8, 8}));
  expect_layer<UNet>(UNetOptions{.channels = 2, .classes = 2, .features = 4, .depth = 2},
                     numbers({2, 2, 9, 7}));
}

TEST(ModelsAsLayers, ACacheRefusesHooksItWouldPassOver) {
  const Tensor tokens = testing::random_tokens({1, 3}, 23, 4).to(test_device());
  NoGrad guard;
  for (const char* name : {"", "drop", "h", "h.1", "h.0.attn"}) {
    Gpt model(testing::odd_gpt(), test_device());
    model.eval();
    auto refuse = [&] {
      KvCache cache(2, 1, 11);
      model.next_logits(tokens, cache);
    };
    model.at<Layer>(name).register_forward_hook([](const Tensor&, const Tensor&) { return Tensor(); });
    expect_error(refuse, {"hooks", "pass over", "without a cache"});
  }
}

TEST(ModelsAsLayers, PartsThatTheirParentReadsWithoutACallRefuseHooks) {
  Jepa model({.image = 8,
              .patch = 4,
              .width = 16,
              .layers = 1,
              .heads = 2,
              .predictor_width = 16,
              .predictor_layers = 1,
              .predictor_heads = 2},
             test_device());
  expect_error([&] { model.encoder.register_forward_hook([](auto&, auto&) { return Tensor(); }); },
               {"without a call"});
  model.target_encoder.register_forward_hook([](auto&, auto&) { return Tensor(); });
}

// Constness is that of a handle.
TEST(ModelsAsLayers, CanBeCalledThroughAReferenceToConst) {
  struct Own : Layer {
    int calls = 0;
    Tensor forward(const Tensor& x) override { return ++calls, x * 2.0; }
  } own;
  const Layer& layer = own;
  const Tensor x = numbers({2, 8});
  EXPECT_TRUE(same_bits(layer(x), x * 2.0));
  EXPECT_EQ(own.calls, 1);
  const Linear linear(8, 3, {}, test_device());
  EXPECT_EQ(linear(x).shape(), (Shape{2, 3}));
  const CrossAttention cross(8, 2, {}, test_device());
  const Tensor tokens = numbers({2, 3, 8});
  EXPECT_EQ(cross(tokens, tokens).shape(), tokens.shape());
  const FeaturePyramid pyramid({2, 4}, 3, test_device());
  EXPECT_EQ(pyramid({numbers({1, 2, 4, 4}), numbers({1, 4, 2, 2})}).size(), 2u);
  const TokenMaps maps(16, {}, test_device());
  EXPECT_EQ(maps(numbers({1, 16, 16}), {4, 4}).size(), 4u);
}

}  // namespace
}  // namespace reprise::nn
