// Hooks on layers: when they run, what they may return, and how they go.
#include <optional>

#include "reprise/autograd/ops.h"
#include "reprise/autograd/recompute/checkpoint.h"
#include "reprise/nn/batch_norm.h"
#include "reprise/nn/layers.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise::nn {
namespace {

using testing::expect_error;
using testing::same_bits;
using testing::test_device;

Tensor numbers(const Shape& shape) {
  std::vector<float> values(size_t(Tensor::empty(shape, DType::f32).numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = float(i % 5) * 0.5f - 0.75f;
  return Tensor::from<float>(values, shape).to(test_device());
}

TEST(LayerHooks, RunInOrderAroundTheLayer) {
  Activate relu(Activation::relu);
  std::string order;
  relu.register_forward_pre_hook([&](const Tensor& x) {
    order += "a";
    return x - 1;
  });
  relu.register_forward_pre_hook([&](const Tensor& x) {
    order += "b";
    EXPECT_EQ(x.item(), 1);
    return Tensor();  // x stays
  });
  relu.register_forward_hook([&](const Tensor& x, const Tensor& y) {
    order += "c";
    EXPECT_EQ(x.item(), 1);
    return y * 10;
  });
  relu.register_forward_hook([&](const Tensor&, const Tensor& y) {
    order += "d";
    EXPECT_EQ(y.item(), 10);
    return Tensor();
  });
  EXPECT_EQ(relu(Tensor::from<float>({2}, {1})).item(), 10);
  EXPECT_EQ(order, "abcd");
  EXPECT_EQ(relu.forward(Tensor::from<float>({2}, {1})).item(), 2) << "forward is the layer's own";
}

TEST(LayerHooks, AreRemovedByWhatTheyReturned) {
  auto relu = std::make_unique<Activate>(Activation::relu);
  int calls = 0;
  auto remove = relu->register_forward_hook([&](auto&, auto&) {
    ++calls;
    return Tensor();
  });
  (*relu)(ones({1}));
  remove();
  remove();  // twice is once
  (*relu)(ones({1}));
  EXPECT_EQ(calls, 1);
  auto late = relu->register_forward_pre_hook([](const Tensor& x) { return x; });
  relu.reset();
  late();  // the layer is gone
}

TEST(LayerHooks, MayRemoveAndAddWhileTheyRun) {
  Activate relu(Activation::relu);
  int first = 0, second = 0;
  std::function<void()> remove;
  remove = relu.register_forward_hook([&](auto&, auto&) {
    ++first;
    remove();
    relu.register_forward_hook([&](auto&, auto&) {
      ++second;
      return Tensor();
    });
    return Tensor();
  });
  relu(ones({1}));
  EXPECT_EQ(second, 0) << "it counts from the next call";
  relu(ones({1}));
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 1);
}

TEST(LayerHooks, EmptyOnesAreErrors) {
  Activate relu(Activation::relu);
  expect_error([&] { relu.register_forward_hook(nullptr); }, "register_forward_hook: the hook is empty");
  expect_error([&] { relu.register_forward_pre_hook(nullptr); },
               "register_forward_pre_hook: the hook is empty");
}

// Hooks that change nothing: what is fused with the layer computes the same behind the call.
TEST(LayerHooks, EpiloguesAreComputedBehindTheCall) {
  const Tensor x = numbers({6, 4}), residual = numbers({6, 4}) * 2, scale = numbers({4}) + 2,
               rows = numbers({6});
  auto look = [](const Tensor&, const Tensor&) { return Tensor(); };
  auto expect_same = [&](auto& layer, auto&& call) {
    const std::vector<double> want = call().template to_vector<double>();
    layer.register_forward_hook(look);
    const std::vector<double> got = call().template to_vector<double>();
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 2e-6) << i;
  };
  Linear product(4, 4, {}, test_device()), plain(4, 4, {}, test_device());
  expect_same(product, [&] {
    return product.forward(
        x, {.activation = Activation::gelu_tanh, .residual = residual, .scale = scale, .row_scale = rows});
  });
  expect_same(plain, [&] { return plain.forward(x, {.residual = residual}); });
  EXPECT_EQ(plain.forward(x.to(DType::bf16).to(DType::f32), {.out = DType::bf16}).dtype(), DType::bf16);
  LayerNorm layer_norm(4, {}, test_device());
  expect_same(layer_norm, [&] { return layer_norm.add(x, residual).norm; });
  RmsNorm rms_norm(4, {}, test_device());
  expect_same(rms_norm, [&] { return rms_norm.add(x, residual).norm; });
  for (NormKind kind : {NormKind::layer, NormKind::rms}) {
    Norm norm(kind, 4, {}, test_device());
    expect_same(norm, [&] { return norm.add(x, residual).sum + norm.add(x, residual).norm; });
    EXPECT_EQ(norm.forward(x, {.out = DType::bf16}).dtype(), DType::bf16);
  }
  BatchNorm1d batch_norm(4, {.track_running_stats = false}, test_device());
  expect_same(batch_norm,
              [&] { return batch_norm.forward(x, {.activation = Activation::relu, .residual = residual}); });
}

TEST(LayerHooks, SeeEveryLayerOfAGpt) {
  Gpt model({.vocab_size = 11, .context = 8, .layers = 2, .heads = 2, .width = 8}, test_device());
  std::vector<std::string> seen;
  for (auto& [name, module] : model.named_modules())
    if (auto* layer = dynamic_cast<Linear*>(module))
      layer->register_forward_hook([&, path = name](const Tensor&, const Tensor& y) {
        EXPECT_EQ(y.shape()[0], 2) << path;
        seen.push_back(path);
        return Tensor();
      });
  model(Tensor::from<int64_t>({1, 4, 2, 7, 0, 9, 3, 3}, {2, 4}).to(test_device()));
  EXPECT_EQ(seen, (std::vector<std::string>{"h.0.attn.qkv", "h.0.attn.proj", "h.0.mlp.fc1", "h.0.mlp.fc2",
                                            "h.1.attn.qkv", "h.1.attn.proj", "h.1.mlp.fc1", "h.1.mlp.fc2"}));
}

TEST(LayerHooks, OfBlocksRun) {
  Gpt model({.vocab_size = 11, .context = 8, .layers = 2, .heads = 2, .width = 8}, test_device());
  const Tensor tokens = Tensor::from<int64_t>({1, 4, 2, 7}, {1, 4}).to(test_device());
  Tensor last;
  model.at<Layer>("h.1").register_forward_hook([&](const Tensor&, const Tensor& y) {
    last = y.detach();
    return Tensor();
  });
  const Tensor logits = model(tokens);
  ASSERT_TRUE(last.defined());
  EXPECT_TRUE(same_bits(linear(model.ln_f(last), model.wte.weight), logits));
}

// What a hook returns counts where a layer is fused with others.
TEST(LayerHooks, ResultsCountWhereLayersAreFused) {
  const Tensor x = numbers({6, 4});
  BatchNorm1d norm(4, {.track_running_stats = false}, test_device());
  norm.register_forward_hook([](const Tensor&, const Tensor& y) { return y * 0; });
  EXPECT_EQ(sum(norm.forward(x, {.residual = x})).item(), sum(x).item());
  LayerNorm layer_norm(4, {}, test_device());
  layer_norm.register_forward_hook([](const Tensor&, const Tensor& y) { return y * 0; });
  EXPECT_EQ(sum(abs(layer_norm.forward(x, ResultOptions()))).item(), 0);
}

TEST(LayerHooks, RunAgainWhereARegionIsPlayedAgain) {
  Linear layer(4, 4, {}, test_device());
  int calls = 0;
  layer.register_forward_hook([&](const Tensor&, const Tensor& y) {
    ++calls;
    return y * 3;
  });
  auto gradient = [&](std::optional<CheckpointMode> mode) {
    const Tensor x = numbers({2, 4}).set_requires_grad();
    auto fn = [&](const Tensor& t) { return tanh(layer(t)); };
    sum(mode ? checkpoint(fn, x, {.mode = *mode}) : fn(x)).backward();
    return x.grad();
  };
  const Tensor want = gradient({});
  for (const auto mode : {CheckpointMode::non_reentrant, CheckpointMode::reentrant}) {
    calls = 0;
    EXPECT_TRUE(same_bits(gradient(mode), want));
    EXPECT_EQ(calls, 2);
  }
}

}  // namespace
}  // namespace reprise::nn
