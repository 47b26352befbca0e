// Weights of a Vit for other images or classes: timm's checkpoint_filter_fn made the golden file (tools/parity_vision.py).
#include "reprise/nn/dialects/pretrained.h"

#include "reprise/io/safetensors.h"
#include "reprise/nn/transformers/positions.h"
#include "reprise/tests/nn/small_models.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/golden.h"

namespace reprise::nn {
namespace {

using namespace testing;

const VitOptions tiny{.image = 20, .patch = 4, .classes = 5, .width = 8, .layers = 1, .heads = 2};

NamedTensors copy_of(const NamedTensors& state) {
  NamedTensors copy;
  for (const auto& [name, tensor] : state) copy.emplace_back(name, tensor.detach().clone());
  return copy;
}

void replace(NamedTensors& state, const std::string& name, const Tensor& by) {
  for (auto& entry : state)
    if (entry.first == name) entry.second = by;
}

const Tensor& named(const NamedTensors& state, const std::string& name) {
  for (const auto& entry : state)
    if (entry.first == name) return entry.second;
  throw Error("no " + name);
}

TEST(VitPretrained, PositionsOfAnotherImageAreTimms) {
  io::SafetensorsFile golden(golden_path("positions.safetensors"));
  VitOptions token = tiny, avg = tiny, registers = tiny, deit3 = tiny;
  avg.pool = registers.pool = Pool::avg;
  avg.class_token = false;
  avg.image = registers.image = 12;
  registers.registers = 3;
  deit3.no_embed_class = true;
  deit3.image = 28;
  for (const auto& [name, options, change] :
       {std::tuple{"token", token, "2 x 2 patches are resampled to 5 x 5"},
        {"avg", avg, "7 x 7"},
        {"registers", registers, "4 x 4"},
        {"deit3", deit3, "3 x 3"}}) {
    SCOPED_TRACE(name);
    Vit model(options);
    NamedTensors weights = copy_of(model.state_dict());
    replace(weights, "pos_embed", golden.read(std::string(name) + "/before"));
    std::vector<std::string> changes = load_pretrained(model, weights);
    ASSERT_EQ(changes.size(), 1u);
    EXPECT_NE(changes[0].find(change), std::string::npos) << changes[0];
    // Both work in f32 on values around 1.
    EXPECT_TRUE(is_close(model.pos_embed.detach(), golden.read(std::string(name) + "/after"), 1e-6));
  }
}

TEST(VitPretrained, TheSameImageKeepsEveryBit) {
  Vit model(tiny), other(tiny);
  randomize(other);
  EXPECT_TRUE(load_pretrained(model, other.state_dict()).empty());
  for (const auto& [name, tensor] : model.state_dict())
    EXPECT_TRUE(same_bits(tensor.detach(), named(other.state_dict(), name).detach())) << name;
}

TEST(VitPretrained, AHeadForOtherClassesIsMadeAnew) {
  VitOptions thousand = tiny, headless = tiny;
  thousand.classes = 1000;
  headless.classes = 0;
  headless.pool = Pool::none;
  for (const auto& [options, said] : {std::pair{thousand, "1000 classes: it is made anew for 5"},
                                      {headless, "no head: it is made anew for 5"}}) {
    Vit model(tiny), other(options);
    randomize(other);
    NamedTensors before = copy_of(model.state_dict());
    std::vector<std::string> changes = load_pretrained(model, other.state_dict());
    ASSERT_EQ(changes.size(), 1u);
    EXPECT_NE(changes[0].find(said), std::string::npos) << changes[0];
    for (const char* name : {"head.weight", "head.bias"})
      EXPECT_TRUE(same_bits(named(model.state_dict(), name).detach(), named(before, name)));
    EXPECT_TRUE(same_bits(named(model.state_dict(), "norm.bias").detach(),
                          named(other.state_dict(), "norm.bias").detach()));
  }
}

TEST(ResNetPretrained, AHeadForOtherClassesIsMadeAnewAndAllElseIsTaken) {
  ResNetOptions thousand{.classes = 1000, .width = 2, .blocks = {1, 1}}, five = thousand;
  five.classes = 5;
  ResNet model(five), other(thousand);
  randomize(other);
  const NamedTensors before = copy_of(model.state_dict());
  const std::vector<std::string> changes = load_pretrained(model, other.state_dict());
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_NE(changes[0].find("1000 classes: it is made anew for 5"), std::string::npos) << changes[0];
  for (const auto& [name, tensor] : model.state_dict())
    EXPECT_TRUE(same_bits(tensor.detach(),
                          named(name.starts_with("fc.") ? before : other.state_dict(), name).detach()))
        << name;
}

TEST(VitPretrained, HalfWeightsBecomeTheModels) {
  Vit model(tiny), other(tiny);
  randomize(other);
  Tensor half = other.pos_embed.detach().to(DType::bf16);
  NamedTensors weights = copy_of(other.state_dict());
  replace(weights, "pos_embed", half);
  EXPECT_TRUE(load_pretrained(model, weights).empty());
  EXPECT_TRUE(same_bits(model.pos_embed.detach(), half.to(DType::f32)));
}

TEST(VitPretrained, WhatDoesNotFitIsAnErrorAndNothingChanges) {
  VitOptions deep = tiny;
  deep.layers = 2;
  Vit model(tiny), other(deep);
  NamedTensors before = copy_of(model.state_dict());
  expect_error([&] { load_pretrained(model, other.state_dict()); }, "unknown: blocks.1.norm1.weight");
  NamedTensors odd = copy_of(model.state_dict());
  replace(odd, "pos_embed", zeros({1, 8, 8}));  // seven patches and a class token
  expect_error([&] { load_pretrained(model, odd); }, "shape of pos_embed: given (1, 8, 8)", "(1, 26, 8)");
  for (const auto& [name, tensor] : model.state_dict())
    EXPECT_TRUE(same_bits(tensor.detach(), named(before, name))) << name;
}

TEST(ResamplePositions, RefusesWhatIsNoSquare) {
  expect_error(
      [] {
        resample_positions(zeros({1, 7, 4}), {2, 2}, 1);
      },
      "resample_positions", "6 patches are no square");
  expect_error([] { resample_positions(zeros({1, 3, 4}), {2, 2}, 3); }, "(1, 3, 4)");
}

}  // namespace
}  // namespace reprise::nn
