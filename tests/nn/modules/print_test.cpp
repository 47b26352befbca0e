// Tensors and modules as text, against what is written here by hand.
#include "reprise/nn/print.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "reprise/autograd/ops.h"
#include "reprise/nn/activations.h"
#include "reprise/nn/batch_norm.h"
#include "reprise/nn/conv.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/transformers/cross_attention.h"
#include "reprise/nn/transformers/mlp.h"
#include "reprise/nn/transformers/multi_head_attention.h"
#include "reprise/tests/support/errors.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

TEST(Print, TensorsOfAnyRankAndDtype) {
  std::ostringstream out;
  out << Tensor::from<float>({1.5, -2, 3, 4, 1e-7f, 123456}, {2, 3});
  EXPECT_EQ(out.str(), "[[1.5, -2, 3],\n [4, 1e-07, 1.2346e+05]] f32(2, 3) on cpu");
  EXPECT_EQ(to_string(Tensor::from<int64_t>({1, 1234567890123, -3, 4}, {2, 1, 2})),
            "[[[1, 1234567890123]],\n [[-3, 4]]] i64(2, 1, 2) on cpu");
  EXPECT_EQ(to_string(scalar(2.5)), "2.5 f32() on cpu");
  EXPECT_EQ(to_string(Tensor::from<uint8_t>({1, 0}, {2}).to(DType::boolean)),
            "[true, false] bool(2,) on cpu");
  EXPECT_EQ(to_string(Tensor::from<double>({NAN, -NAN, INFINITY, -INFINITY}, {4})),
            "[nan, nan, inf, -inf] f64(4,) on cpu");
  EXPECT_EQ(to_string(zeros({0, 3})), "[] f32(0, 3) on cpu");
  EXPECT_EQ(to_string(Tensor()), "undefined");
  EXPECT_EQ(to_string(full({1}, 1.0 / 3), {.digits = 3}), "[0.333] f32(1,) on cpu");
  EXPECT_EQ(to_string(full({1}, 0.5, DType::bf16).set_requires_grad()), "[0.5] bf16(1,) on cpu");
  testing::expect_error([] { to_string(zeros({1}), {.edge = 0}); }, "to_string: edge and digits");
}

TEST(Print, LargeTensorsByTheirEdges) {
  EXPECT_EQ(to_string(arange(2000)), "[0, 1, 2, ..., 1997, 1998, 1999] i64(2000,) on cpu");
  const Tensor x = arange(12).reshape({6, 2}).transpose(0, 1);  // 0 2 4 6 8 10; 1 3 5 7 9 11
  EXPECT_EQ(to_string(x, {.most = 11, .edge = 2}),
            "[[0, 2, ..., 8, 10],\n [1, 3, ..., 9, 11]] i64(2, 6) on cpu");
  EXPECT_EQ(to_string(x, {.most = 12, .edge = 2}),
            "[[0, 2, 4, 6, 8, 10],\n [1, 3, 5, 7, 9, 11]] i64(2, 6) on cpu");
  EXPECT_EQ(to_string(arange(30).reshape({6, 5}), {.most = 1, .edge = 1}),
            "[[0, ..., 4],\n ...,\n [25, ..., 29]] i64(6, 5) on cpu");
}

TEST(Print, OfWhereverATensorIs) {
  const Tensor x = arange(3).to(testing::test_device());
  EXPECT_EQ(to_string(x), detail::join("[0, 1, 2] i64(3,) on ", testing::test_device()));
}

struct Net : nn::Module {
  nn::Linear first{2, 3};
  nn::BatchNorm1d norm{3};
  Net() {
    register_module("first", first);
    register_module("norm", norm);
    first.freeze();
  }
};

TEST(Print, AModuleNamesWhatItHas) {
  std::ostringstream out;
  out << Net();
  const std::string text = out.str();
  EXPECT_NE(text.find("Net: 15 parameters\n  first.weight f32(3, 2), frozen\n  first.bias f32(3,), frozen\n"
                      "  norm.weight f32(3,)\n  norm.bias f32(3,)\n  norm.running_mean f32(3,), a buffer\n"),
            std::string::npos)
      << text;
}

TEST(Print, AModuleNamesItsLayersWithoutParameters) {
  nn::Sequential net;
  net.add<nn::Linear>(2, 3);
  net.add<nn::BatchNorm1d>(3);
  net.add<nn::Tanh>();
  auto& inner = net.add<nn::Sequential>();
  inner.add<nn::Dropout>(0.5);
  inner.add<nn::Linear>(3, 1, nn::LinearOptions{.bias = false});
  inner.add([](const Tensor& x) { return x; });
  net.add<nn::Softmax>(1);
  EXPECT_EQ(nn::to_string(net),
            "Sequential: 18 parameters\n  0.weight f32(3, 2)\n  0.bias f32(3,)\n"
            "  1.weight f32(3,)\n  1.bias f32(3,)\n  1.running_mean f32(3,), a buffer\n"
            "  1.running_var f32(3,), a buffer\n  1.num_batches_tracked i64(), a buffer\n"
            "  2 Tanh\n  3.0 Dropout(p=0.5)\n  3.1.weight f32(1, 3)\n  3.2 Lambda\n  4 Softmax(dim=1)");
  EXPECT_EQ(nn::to_string(nn::Dropout(0.5)), "Dropout(p=0.5): 0 parameters");
}

// What shapes do not tell, where it is not the default; a layer of the user's own says it too.
TEST(Print, AModuleNamesTheOptionsOfItsLayers) {
  struct Noise : nn::Layer, nn::Described {
    Tensor forward(const Tensor& x) override { return x; }
    std::string extra_repr() const override { return nn::OptionText().add("law", "normal").str(); }
  };
  nn::Sequential net;
  auto of = [&](nn::Layer& layer) {
    const std::string text = nn::to_string(layer);
    return text.substr(0, text.find(": "));
  };
  EXPECT_EQ(of(net.add<nn::Conv2d>(4, 8, 3)), "Conv2d") << "stride 1, no padding";
  EXPECT_EQ(
      of(net.add<nn::Conv2d>(4, 8, 3, nn::Conv2dLayerOptions{.stride = {2, 1}, .padding = 1, .groups = 4})),
      "Conv2d(stride=(2, 1), padding=(1, 1), groups=4)");
  EXPECT_EQ(of(net.add<nn::Conv2d>(4, 8, 3, nn::Conv2dLayerOptions{.dilation = {1, 2}})),
            "Conv2d(dilation=(1, 2))");
  EXPECT_EQ(of(net.add<nn::ConvTranspose2d>(4, 8, 2, nn::ConvTranspose2dLayerOptions{.stride = 2})),
            "ConvTranspose2d(stride=(2, 2))");
  EXPECT_EQ(of(net.add<nn::BatchNorm2d>(8)), "BatchNorm2d");
  EXPECT_EQ(of(net.add<nn::BatchNorm2d>(
                8, nn::BatchNormLayerOptions{.eps = 1e-3, .momentum = {}, .track_running_stats = true})),
            "BatchNorm2d(eps=0.001, momentum=none)");
  EXPECT_EQ(of(net.add<nn::BatchNorm1d>(8, nn::BatchNormLayerOptions{.momentum = 0.01})),
            "BatchNorm1d(momentum=0.01)");
  EXPECT_EQ(of(net.add<nn::BatchNorm1d>(8, nn::BatchNormLayerOptions{.track_running_stats = false})),
            "BatchNorm1d(track_running_stats=false)");
  EXPECT_EQ(of(net.add<nn::LayerNorm>(8)), "LayerNorm");
  EXPECT_EQ(of(net.add<nn::LayerNorm>(8, nn::LayerNormOptions{.eps = 1e-6})), "LayerNorm(eps=1e-06)");
  EXPECT_EQ(of(net.add<nn::RmsNorm>(8, nn::RmsNormOptions{.eps = 1e-5})), "RmsNorm(eps=1e-05)");
  EXPECT_EQ(of(net.add<nn::Norm>(nn::NormKind::rms, 8)), "Norm(kind=rms)");
  EXPECT_EQ(of(net.add<nn::Norm>(nn::NormKind::layer, 8, nn::LayerNormOptions{.eps = 0.5})), "Norm(eps=0.5)");
  EXPECT_EQ(of(net.add<nn::GroupNorm>(2, 8)), "GroupNorm(groups=2)");
  EXPECT_EQ(of(net.add<nn::DropPath>(0.1)), "DropPath(p=0.1)");
  EXPECT_EQ(of(net.add<nn::ReLU>()), "ReLU");
  EXPECT_EQ(of(net.add<nn::Activate>(Activation::gelu_tanh)), "Activate(activation=gelu_tanh)");
  EXPECT_EQ(of(net.add<nn::ELU>(0.5)), "ELU(alpha=0.5)");
  EXPECT_EQ(of(net.add<nn::LeakyReLU>()), "LeakyReLU(slope=0.01)");
  EXPECT_EQ(of(net.add<nn::Softplus>(2)), "Softplus(beta=2)");
  EXPECT_EQ(of(net.add<nn::LogSoftmax>(-1)), "LogSoftmax(dim=-1)");
  EXPECT_EQ(of(net.add<nn::Mlp>(8, 16)), "Mlp(activation=gelu_tanh)");
  EXPECT_EQ(of(net.add<nn::MultiHeadAttention>(8, 4)), "MultiHeadAttention(heads=4)");
  EXPECT_EQ(
      of(net.add<nn::MultiHeadAttention>(
          8, 4, nn::MultiHeadAttentionOptions{.kv_heads = 2, .causal = false, .window = 5, .dropout = 0.1})),
      "MultiHeadAttention(heads=4, kv_heads=2, causal=false, window=5, dropout=0.1)");
  EXPECT_TRUE(of(net.add<Noise>()).ends_with("Noise(law=normal)"));
  const nn::CrossAttention across(8, 2, {.causal = true});
  EXPECT_TRUE(nn::to_string(across).starts_with("CrossAttention(heads=2, causal=true): "));
}

TEST(Print, OptionsStandBeforeTheParametersOfTheirLayer) {
  nn::Sequential net;
  net.add<nn::Conv2d>(1, 2, 3, nn::Conv2dLayerOptions{.stride = 2, .bias = false});
  net.add<nn::MultiHeadAttention>(2, 1, nn::MultiHeadAttentionOptions{.bias = false});
  EXPECT_EQ(nn::to_string(net),
            "Sequential: 34 parameters\n  0 Conv2d(stride=(2, 2))\n  0.weight f32(2, 1, 3, 3)\n"
            "  1 MultiHeadAttention(heads=1)\n  1.qkv.weight f32(6, 2)\n  1.proj.weight f32(2, 2)");
}

// A parameter's own name may have dots, and a layer may stand in two places: each line is there once.
TEST(Print, AModuleOfAnyNames) {
  struct Odd : nn::Module {
    nn::Linear shared{2, 1, {.bias = false}};
    Tensor own = register_parameter("in.a.corner", zeros({2}));
    Odd() {
      register_module("a.b", shared);
      register_module("c", shared);
    }
  };
  const std::string text = nn::to_string(Odd());
  EXPECT_TRUE(text.ends_with(": 4 parameters\n  in.a.corner f32(2,)\n  a.b.weight f32(1, 2)")) << text;
}

}  // namespace
}  // namespace reprise
