// Vit: sizes, tokens, and the model against the same in simple operations and f64.
#include "reprise/nn/models/vit.h"

#include <cmath>
#include <functional>

#include "reprise/nn/transformers/positions.h"
#include "reprise/tests/nn/composite_gpt.h"
#include "reprise/tests/nn/small_models.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise::nn {
namespace {

using testing::composite_block;
using testing::composite_norm;
using testing::expect_error;
using testing::f64_copies;
using testing::is_close;
using testing::random_input;
using testing::randomize;
using testing::same_bits;
using testing::Weights;

// Two blocks over 2 x 2 patches of 3 pixels.
VitOptions tiny(const std::function<void(VitOptions&)>& change = [](VitOptions&) {}) {
  VitOptions options{
      .image = 6, .patch = 3, .channels = 2, .classes = 5, .width = 12, .layers = 2, .heads = 3};
  change(options);
  return options;
}

// Logits (N, classes) by the definition, from weights in f64.
Tensor composite_vit(const Weights& w, const VitOptions& o, const Tensor& images, const Tensor& positions) {
  const int64_t n = images.size(0), side = o.image / o.patch;
  TensorList rows;
  for (int64_t i = 0; i < side * side; ++i) {
    Tensor patch = slice(images, 2, i / side * o.patch, (i / side + 1) * o.patch);
    patch = slice(patch, 3, i % side * o.patch, (i % side + 1) * o.patch);
    rows.push_back(reshape(patch, {n, o.channels * o.patch * o.patch}));
  }
  Tensor weight = reshape(w.at("patch_embed.proj.weight"), {o.width, -1});
  Tensor x = matmul(stack(rows, 1), transpose(weight, 0, 1)) + w.at("patch_embed.proj.bias");
  if (o.no_embed_class) x = x + positions;
  TensorList parts;
  for (const char* name : {"cls_token", "reg_token"})
    if (w.contains(name)) parts.push_back(concat(TensorList(size_t(n), w.at(name)), 0));
  const int64_t prefix = (o.class_token ? 1 : 0) + o.registers;
  parts.push_back(x);
  x = concat(parts, 1);
  if (!o.no_embed_class) x = x + positions;
  for (int64_t i = 0; i < o.layers; ++i)
    x = composite_block(w, "blocks." + std::to_string(i) + ".", x, o.heads, false, Activation::gelu,
                        o.norm_eps);
  if (o.pool == Pool::none) return composite_norm(w, "norm.", x, o.norm_eps);
  if (o.pool == Pool::token)
    x = select(composite_norm(w, "norm.", x, o.norm_eps), 1, 0);
  else
    x = composite_norm(w, "fc_norm.", mean(slice(x, 1, prefix, x.size(1)), {1}), o.norm_eps);
  return matmul(x, transpose(w.at("head.weight"), 0, 1)) + w.at("head.bias");
}

void expect_is_the_composite(const VitOptions& options) {
  Vit model(options);
  randomize(model);
  Weights w = f64_copies(model);
  Tensor images = random_input({3, options.channels, options.image, options.image});
  Tensor positions = w.contains("pos_embed") ? w.at("pos_embed") : model.pos_embed.to(DType::f64);
  Tensor got = model(images), want = composite_vit(w, options, images.to(DType::f64), positions);
  // A few dozen f32 roundings of sums of up to 48 products.
  constexpr double tolerance = 2e-5;
  EXPECT_TRUE(is_close(got, want, tolerance));
  Tensor dy = random_input(got.shape(), 9);
  got.backward(dy);
  want.backward(dy.to(DType::f64));
  for (const auto& [name, parameter] : model.named_parameters())
    EXPECT_TRUE(is_close(parameter.grad(), w.at(name).grad(), tolerance)) << "gradient of " << name;
}

TEST(Vit, IsItsDefinitionInSimpleOperations) {
  expect_is_the_composite(tiny());
  expect_is_the_composite(tiny([](auto& o) { o.pool = Pool::avg, o.class_token = false; }));
  expect_is_the_composite(tiny([](auto& o) { o.pool = Pool::avg, o.registers = 3; }));
  expect_is_the_composite(
      tiny([](auto& o) { o.registers = 2, o.no_embed_class = true, o.layer_scale = 0.5; }));
  expect_is_the_composite(tiny([](auto& o) { o.positions = Positions::sincos, o.qkv_bias = false; }));
  expect_is_the_composite(tiny([](auto& o) { o.pool = Pool::none, o.classes = 0, o.class_token = false; }));
}

TEST(Vit, PresetsAreNamed) {
  VitOptions vit5 = vit_preset("vit5_base");
  EXPECT_EQ(std::tuple(vit5.width, vit5.registers, vit5.layer_scale), std::tuple(768, 4, 1e-4));
  EXPECT_TRUE(vit5.rope && vit5.qk_norm && vit5.no_embed_class && !vit5.qkv_bias &&
              vit5.norm == NormKind::rms);
  EXPECT_EQ(vit_preset("large").layers, 24);  // all of their shapes: StateDict.LoadsInTimm
  expect_error([] { vit_preset("huge"); },
               {"vit_preset", "'huge'", "tiny, small, base or large, vit5_small or vit5_base"});
}

VitOptions fashion() {
  return {.image = 28,
          .patch = 4,
          .channels = 1,
          .classes = 10,
          .width = 128,
          .layers = 4,
          .heads = 4,
          .stem = Stem::conv,
          .class_token = false,
          .pool = Pool::avg};
}

// Counted by hand: 4 blocks of 12 w^2 + 13 w, convolutions 1 -> 32 -> 64 -> 128 with two BatchNorms, 49 positions.
TEST(Vit, OfTheFashionRecipeHasThePartsCountedByHand) {
  Vit model(fashion());
  EXPECT_EQ(model.parameter_count(),
            4 * (12 * 128 * 128 + 13 * 128) + 288 + 64 + 18432 + 128 + 8320 + 49 * 128 + 256 + 1290);
  const double products = 49.0 * 4 * 12 * 128 * 128 + 14 * 14 * 288 + 49 * 18432 + 49 * 8192 + 1280;
  EXPECT_EQ(model.flops_per_image(), 6 * (products + 2.0 * 4 * 128 * 49 * 49));
  EXPECT_EQ(model(random_input({2, 1, 28, 28})).shape(), (Shape{2, 10}));
}

TEST(Vit, ConvStemIsItsConvolutions) {
  Vit model({.image = 8,
             .patch = 4,
             .channels = 2,
             .classes = 3,
             .width = 8,
             .layers = 1,
             .heads = 2,
             .stem = Stem::conv});
  randomize(model);
  NamedTensors state = model.state_dict();
  auto at = [&](const std::string& name) {
    for (const auto& [key, tensor] : state)
      if (key == "patch_embed." + name) return tensor.detach().to(DType::f64);
    ADD_FAILURE() << "no " << name;
    return Tensor();
  };
  Tensor x = random_input({3, 2, 8, 8}), y = x.to(DType::f64);
  for (const char* place : {"0", "3"}) {
    const std::string norm = "stem." + std::to_string(std::atoi(place) + 1);
    y = composite::conv2d(y, at("stem." + std::string(place) + ".weight"), {}, {.stride = 2, .padding = 1});
    y = relu(composite::batch_norm(y, at(norm + ".weight"), at(norm + ".bias"), {}, {}, 1e-5));
  }
  y = composite::conv2d(y, at("proj.weight"), at("proj.bias"), {});  // (3, 8, 2, 2)
  y = transpose(reshape(y, {3, 8, 4}), 1, 2);
  EXPECT_TRUE(is_close(model.patch_embed(x), y, 1e-5));  // f32 sums of up to 18 products
}

TEST(Vit, TakesEmbeddedTokensAsTheyAre) {
  Vit model(tiny());
  randomize(model);
  Tensor images = random_input({2, 2, 6, 6});
  EXPECT_TRUE(same_bits(model.blocks(model.embed(images)).detach(), model.blocks(images).detach()));
}

// Rates 0, r / 2, r: counted by the samples that a block leaves as they are.
TEST(Vit, DropPathGrowsWithTheBlock) {
  VitOptions options = tiny([](auto& o) { o.layers = 3, o.drop_path = 0.8; });
  Vit model(options);
  randomize(model);
  constexpr int64_t samples = 400;
  Tensor x = random_input({1, 5, 12}).expand({samples, 5, 12}).contiguous();
  manual_seed(4);
  for (int64_t i = 0; i < 3; ++i) {
    std::vector<double> in = x.to_vector<double>(), out = model.blocks[i](x).detach().to_vector<double>();
    int untouched = 0;
    for (int64_t s = 0; s < samples; ++s)
      untouched += std::equal(in.begin() + s * 60, in.begin() + s * 60 + 60, out.begin() + s * 60);
    const double rate = 0.4 * double(i), want = rate * rate;  // both halves
    EXPECT_NEAR(untouched / double(samples), want, 5 * std::sqrt(want * (1 - want) / samples)) << i;
  }
}

TEST(Vit, StartsAsTimmsDo) {
  manual_seed(2);
  Vit model({.image = 32,
             .patch = 4,
             .classes = 10,
             .width = 64,
             .layers = 2,
             .heads = 4,
             .registers = 4,
             .layer_scale = 1e-5});
  auto deviation = [](const Tensor& x) { return std::sqrt(mean(square(x.detach())).item()); };
  for (const auto& [name, p] : model.named_parameters()) {
    const double sampling = 5 / std::sqrt(2.0 * double(p.numel()));  // 5 deviations of a deviation's estimate
    if (name == "cls_token" || name == "reg_token")
      EXPECT_NEAR(deviation(p) / 1e-6, 1, sampling) << name;
    else if (name.starts_with("patch_embed."))  // PyTorch's: uniform in +-1 / sqrt(48)
      EXPECT_NEAR(deviation(p) * std::sqrt(3.0 * 48), 1, sampling) << name;
    else if (p.rank() >= 2)
      EXPECT_NEAR(deviation(p) / 0.02, 1, sampling) << name;
    else if (name.ends_with("gamma"))
      EXPECT_EQ(p.detach().to_vector<float>(), std::vector<float>(64, 1e-5f)) << name;
    else
      EXPECT_EQ(deviation(p), name.ends_with("weight") ? 1 : 0) << name;
  }
}

TEST(Vit, StartsAsTheOriginalDoesIfAskedTo) {
  manual_seed(2);
  Vit model(
      {.image = 32, .patch = 4, .classes = 10, .width = 64, .layers = 2, .heads = 4, .init = VitInit::jax});
  for (const auto& [name, p] : model.named_parameters()) {
    const double sampling = 5 / std::sqrt(2.0 * double(p.numel()));
    const double deviation = std::sqrt(mean(square(p.detach())).item());
    double want = 0.02;  // positions
    if (name.ends_with(".bias") || name.starts_with("head.")) want = 0;
    if (name == "cls_token" || (name.ends_with(".bias") && name.find(".mlp.") != std::string::npos))
      want = 1e-6;
    if (name.ends_with("norm1.weight") || name.ends_with("norm2.weight") || name == "norm.weight") want = 1;
    if (name.starts_with("blocks.") && p.rank() == 2) want = std::sqrt(2.0 / double(p.size(0) + p.size(1)));
    if (name == "patch_embed.proj.weight") want = 1 / std::sqrt(48.0);
    EXPECT_NEAR(deviation, want, want * sampling) << name;
  }
}

TEST(SincosPositions, AreTheFormulaWithTheColumnFirst) {
  Tensor positions = sincos_positions({2, 3}, 8);
  ASSERT_EQ(positions.shape(), (Shape{6, 8}));
  std::vector<double> got = positions.to_vector<double>();
  const double row = 1, column = 2;  // the last patch's
  const double want[] = {std::sin(column), std::sin(column / 100), std::cos(column), std::cos(column / 100),
                         std::sin(row),    std::sin(row / 100),    std::cos(row),    std::cos(row / 100)};
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(got[5 * 8 + i], want[i], 1e-7) << i;  // one f32 rounding
  expect_error([] { sincos_positions({2, 3}, 6); }, {"sincos_positions", "width 6", "4"});
  expect_error([] { sincos_positions({0, 3}, 8); }, {"sincos_positions", "0 x 3"});
}

TEST(Vit, SincosPositionsAreABufferWithZerosForTheClassToken) {
  Vit model(tiny([](auto& o) { o.positions = Positions::sincos; }));
  EXPECT_FALSE(model.pos_embed.requires_grad());
  ASSERT_EQ(model.pos_embed.shape(), (Shape{1, 5, 12}));
  EXPECT_TRUE(same_bits(slice(model.pos_embed, 1, 0, 1).contiguous(), zeros({1, 1, 12})));
  EXPECT_TRUE(
      same_bits(slice(model.pos_embed, 1, 1, 5).contiguous(), unsqueeze(sincos_positions({2, 2}, 12), 0)));
  EXPECT_EQ(model.state_dict().back().first, "pos_embed");
}

TEST(Vit, OneErrorListsAllOptionsThatDoNotFit) {
  expect_error([] { Vit({.image = 225, .classes = 0, .heads = 5, .class_token = false, .registers = -1}); },
               {"Vit", "image 225 is not a multiple of patch 16", "width 768 is not a multiple of 5 heads",
                "0 classes with a head", "registers", "-1", "class token"});
  auto make = [](auto change) { Vit model(tiny(change)); };
  expect_error([&] { make([](auto& o) { o.layers = 0; }); }, {"Vit", "at least one layer", "0"});
  expect_error([&] { make([](auto& o) { o.channels = 0; }); }, {"Vit", "channel", "0"});
  expect_error([&] { make([](auto& o) { o.drop_path = 1; }); }, {"Vit", "drop_path", "1"});
  expect_error([&] { make([](auto& o) { o.pool = Pool::none; }); }, {"Vit", "5 classes with no head"});
  expect_error([&] { make([](auto& o) { o.stem = Stem::conv; }); }, {"PatchEmbed", "patch 3", "power of 2"});
  expect_error([&] { make([](auto& o) { o.width = 15, o.positions = Positions::sincos; }); },
               {"Vit", "sincos", "15"});
  expect_error([&] { make([](auto& o) { o.layer_scale = -1; }); }, {"layer_scale", "-1"});
  expect_error([&] { make([](auto& o) { o.heads = 2, o.rope = true; }); },
               {"Vit", "rope", "multiple of 4", "6"});
  Vit model(tiny());
  expect_error([&] { model(random_input({3, 2, 6, 9})); }, {"Vit", "(N, 2, 6, 6)", "(3, 2, 6, 9)"});
  expect_error([&] { model(random_input({2, 6, 6})); }, {"Vit", "(N, 2, 6, 6)", "(2, 6, 6)"});
}

}  // namespace
}  // namespace reprise::nn
