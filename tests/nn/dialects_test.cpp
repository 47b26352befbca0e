// Names and layouts of other programs' files. The names below were read from files that timm 1.0.31 and transformers 5.23
// wrote; tools/check_convert.py lets them answer.
#include "reprise/nn/dialects/dialect.h"

#include <set>

#include "reprise/tests/nn/small_models.h"
#include "reprise/tests/support/compare.h"

namespace reprise::nn {
namespace {

using namespace testing;

constexpr ModelKind hf_vit{Architecture::vit, Naming::hugging_face},
    hf_gpt{Architecture::gpt, Naming::hugging_face};

const VitOptions tiny_vit{.image = 8, .patch = 4, .classes = 5, .width = 8, .layers = 2, .heads = 2};

NamedTensors state_of_random(Module&& model, DType dtype = DType::f32) {
  randomize(model);
  model.to(dtype);
  NamedTensors state;
  for (const auto& [name, tensor] : model.state_dict()) state.emplace_back(name, tensor.detach());
  return state;
}

const Tensor& named(const NamedTensors& tensors, const std::string& name) {
  for (const auto& entry : tensors)
    if (entry.first == name) return entry.second;
  throw Error("no tensor " + name);
}

NamedTensors renamed(NamedTensors tensors, const std::string& from, const std::string& to) {
  for (auto& [name, tensor] : tensors)
    if (size_t at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
  return tensors;
}

NamedTensors without(NamedTensors tensors, const std::string& name) {
  std::erase_if(tensors, [&](const auto& entry) { return entry.first == name; });
  return tensors;
}

void expect_same(const NamedTensors& got, const NamedTensors& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, tensor] : want)
    EXPECT_TRUE(same_bits(named(got, name).contiguous(), tensor)) << name;
}

TEST(Dialect, HuggingFacesVitHasItsNamesAndApartQueryKeyValue) {
  NamedTensors ours = state_of_random(Vit(tiny_vit)), theirs = write_dialect(ours, hf_vit);
  std::set<std::string> names;
  for (const auto& [name, tensor] : theirs) names.insert(name);
  std::set<std::string> want = {"classifier.weight",
                                "classifier.bias",
                                "vit.layernorm.weight",
                                "vit.layernorm.bias",
                                "vit.embeddings.cls_token",
                                "vit.embeddings.position_embeddings",
                                "vit.embeddings.patch_embeddings.projection.weight",
                                "vit.embeddings.patch_embeddings.projection.bias"};
  for (std::string layer : {"0", "1"})
    for (std::string part : {"attention.attention.query", "attention.attention.key",
                             "attention.attention.value", "attention.output.dense", "layernorm_before",
                             "layernorm_after", "intermediate.dense", "output.dense"})
      for (std::string leaf : {".weight", ".bias"})
        want.insert("vit.encoder.layer." + layer + "." + part + leaf);
  EXPECT_EQ(names, want);
  const std::vector<double> stacked = named(ours, "blocks.1.attn.qkv.weight").to_vector<double>();
  const std::string attention = "vit.encoder.layer.1.attention.attention.";
  size_t at = 0;
  for (std::string part : {"query", "key", "value"})
    for (double value : named(theirs, attention + part + ".weight").to_vector<double>())
      ASSERT_EQ(value, stacked[at++]) << part;
}

TEST(Dialect, EveryLayoutComesBackToTheBit) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    NamedTensors vit = state_of_random(Vit(tiny_vit), dtype), gpt = state_of_random(Gpt(odd_gpt()), dtype);
    expect_same(read_dialect(write_dialect(vit, hf_vit)).tensors, vit);
    expect_same(read_dialect(write_dialect(gpt, hf_gpt)).tensors, gpt);
    expect_same(read_dialect(vit).tensors, vit);
    expect_same(read_dialect(gpt).tensors, gpt);
  }
  EXPECT_EQ(read_dialect(write_dialect(state_of_random(Gpt(odd_gpt())), hf_gpt)).kind, hf_gpt);
}

TEST(Dialect, ModulesOfTransformers5AreRead) {
  NamedTensors ours = state_of_random(Vit(tiny_vit)), theirs = write_dialect(ours, hf_vit);
  for (const auto& [file, module] : {std::pair{".attention.attention.query.", ".attention.q_proj."},
                                     {".attention.attention.key.", ".attention.k_proj."},
                                     {".attention.attention.value.", ".attention.v_proj."},
                                     {".attention.output.dense.", ".attention.o_proj."},
                                     {".intermediate.dense.", ".mlp.fc1."},
                                     {".output.dense.", ".mlp.fc2."},
                                     {"vit.encoder.layer.", "vit.layers."}})
    theirs = renamed(theirs, file, module);
  EXPECT_TRUE(named(theirs, "vit.layers.1.attention.o_proj.weight").defined());
  expect_same(read_dialect(theirs).tensors, ours);
}

TEST(Dialect, PrefixesAndDeit3sGammasAreRead) {
  VitOptions scaled = tiny_vit;
  scaled.layer_scale = 0.5;
  NamedTensors ours = state_of_random(Vit(scaled));
  NamedTensors theirs = renamed(renamed(ours, ".ls1.gamma", ".gamma_1"), ".ls2.gamma", ".gamma_2");
  for (auto& [name, tensor] : theirs) name = "module.encoder." + name;
  expect_same(read_dialect(theirs).tensors, ours);
  theirs[0].first = theirs[0].first.substr(7);  // one without "module.": no prefix of all
  expect_error([&] { read_dialect(theirs); }, "of no model that is known here");
}

TEST(Dialect, HuggingFacesGpt2IsTransposed) {
  NamedTensors ours = state_of_random(Gpt(odd_gpt())), theirs = write_dialect(ours, hf_gpt);
  const Tensor here = named(ours, "h.1.mlp.c_fc.weight"),
               there = named(theirs, "transformer.h.1.mlp.c_fc.weight");
  ASSERT_EQ(there.shape(), (Shape{15, 60}));
  const std::vector<double> a = here.to_vector<double>(), b = there.to_vector<double>();
  EXPECT_EQ(a[7 * 15 + 2], b[2 * 60 + 7]);
  EXPECT_TRUE(same_bits(named(theirs, "transformer.wte.weight"), named(ours, "wte.weight")));
  EXPECT_EQ(read_dialect(theirs).tensors.size(), ours.size());
}

TEST(Dialect, WhatAModelDoesNotNeedIsLeftOutAndNamed) {
  NamedTensors ours = state_of_random(Gpt(odd_gpt()));
  NamedTensors theirs = write_dialect(ours, hf_gpt);
  theirs.emplace_back("transformer.h.0.attn.bias", ones({1, 1, 11, 11}));
  theirs.emplace_back("lm_head.weight", named(ours, "wte.weight").clone());
  ModelWeights read = read_dialect(theirs);
  expect_same(read.tensors, ours);
  EXPECT_EQ(read.left_out, (std::vector<std::string>{"transformer.h.0.attn.bias", "lm_head.weight"}));
  theirs.back().second = theirs.back().second * 2.0;
  expect_error([&] { read_dialect(theirs); }, "\"lm_head.weight\" is not wte.weight");
}

TEST(Dialect, OneErrorListsAllThatDoesNotFit) {
  NamedTensors theirs = write_dialect(state_of_random(Vit(tiny_vit)), hf_vit);
  const std::string layer = "vit.encoder.layer.1.";
  theirs = without(theirs, layer + "attention.attention.key.bias");
  for (auto& [name, tensor] : theirs)
    if (name == layer + "output.dense.weight")
      tensor = zeros({8, 31});
    else if (name == layer + "attention.attention.value.weight")
      tensor = tensor.to(DType::f16);
  theirs.emplace_back("vit.spare", zeros({3}));
  expect_error([&] { read_dialect(theirs); }, "missing: encoder.layer.1.attention.attention.key.bias (8,)",
               "shape of vit.encoder.layer.1.output.dense.weight: (8, 31), wanted (8, 32)",
               "dtype of vit.encoder.layer.1.attention.attention.value.weight: f16, wanted f32",
               "unknown: vit.spare (3,)");
}

// Its names are transformers' in the state dict too. Which heads there are no shape tells: here 4 of 6 channels share 2 of keys,
// and so do 2 of 12 share 1.
TEST(Dialect, LlamaIsReadByItsShapes) {
  for (const bool tied : {false, true}) {
    const LlamaOptions options{.vocab_size = 11,
                               .layers = 3,
                               .heads = 4,
                               .kv_heads = 2,
                               .width = 24,
                               .hidden = 40,
                               .tied = tied,
                               .qkv_bias = tied};
    const NamedTensors state = state_of_random(Llama(options));
    NamedTensors theirs = state;
    theirs.emplace_back("model.layers.2.self_attn.rotary_emb.inv_freq", zeros({3}));
    const ModelWeights read = read_dialect(theirs);
    EXPECT_EQ(read.kind, (ModelKind{Architecture::llama, Naming::reprise}));
    expect_same(read.tensors, state);
    EXPECT_EQ(read.left_out, std::vector<std::string>{"model.layers.2.self_attn.rotary_emb.inv_freq"});
    expect_same(write_dialect(read.tensors, {Architecture::llama, Naming::hugging_face}), state);
    const auto& o = std::get<LlamaOptions>(read.options);
    EXPECT_EQ(std::vector({o.vocab_size, o.layers, o.width, o.hidden, o.heads, o.kv_heads}),
              (std::vector<int64_t>{11, 3, 24, 40, 2, 1}));
    EXPECT_EQ(o.tied, tied);
    EXPECT_EQ(o.qkv_bias, tied);
  }
}

// Norms of queries say how wide a head is; without them a head is as wide as it can be: 12 channels for 4 x 6 of queries, 2 x 6 of keys.
TEST(Dialect, HeadsOfALlamaNeedNotFillItsWidth) {
  for (const bool qk_norm : {true, false}) {
    const LlamaOptions options{.vocab_size = 11,
                               .layers = 2,
                               .heads = 4,
                               .kv_heads = 2,
                               .width = 16,
                               .hidden = 40,
                               .head_dim = 6,
                               .qk_norm = qk_norm};
    const NamedTensors state = state_of_random(Llama(options));
    const ModelWeights read = read_dialect(state);
    expect_same(read.tensors, state);
    const auto& o = std::get<LlamaOptions>(read.options);
    EXPECT_EQ(std::vector({o.width, o.heads, o.kv_heads, o.head_dim}),
              (qk_norm ? std::vector<int64_t>{16, 4, 2, 6} : std::vector<int64_t>{16, 2, 1, 12}));
    EXPECT_EQ(o.qk_norm, qk_norm);
  }
}

TEST(Dialect, LlamaOfOtherShapesIsRefused) {
  const NamedTensors state =
      state_of_random(Llama({.vocab_size = 11, .layers = 2, .heads = 2, .width = 24, .hidden = 40}));
  auto with = [&](const std::string& name, const Tensor& tensor) {
    NamedTensors other = without(state, name);
    other.emplace_back(name, tensor);
    return other;
  };
  const std::string block = "model.layers.0.";
  for (const auto& [name, shape, message] :
       {std::tuple{block + "self_attn.q_proj.weight", Shape{48, 24},
                   "o_proj.weight: (24, 24), wanted (24, 48)"},
        {block + "self_attn.q_proj.weight", Shape{1 << 30, 24}, "wanted (24, 1073741824)"},
        {block + "self_attn.k_proj.weight", Shape{24, 23}, "wanted heads of an even number of channels"},
        {block + "self_attn.k_proj.weight", Shape{9, 24}, "wanted heads of an even number of channels"},
        {block + "mlp.gate_proj.weight", Shape{1 << 30, 1}, "wanted (1073741824, 24)"},
        {block + "mlp.up_proj.weight", Shape{41, 24}, "up_proj.weight: (41, 24), wanted (40, 24)"}})
    expect_error([&] { read_dialect(with(name, Tensor::zeros({1}).expand(shape))); }, message);
  expect_error([&] { read_dialect(without(state, "model.layers.1.mlp.down_proj.weight")); },
               "missing: model.layers.1.mlp.down_proj.weight (24, 40)");
  NamedTensors more = state;
  more.emplace_back("model.layers.0.self_attn.o_proj.bias", zeros({24}));
  expect_error([&] { read_dialect(more); }, "unknown: model.layers.0.self_attn.o_proj.bias (24,)");
}

TEST(Dialect, WhatAFileCannotHoldIsListed) {
  VitOptions options = tiny_vit;
  options.layer_scale = 0.5;
  options.registers = 2;
  NamedTensors state = state_of_random(Vit(options));
  expect_error([&] { write_dialect(state, hf_vit); }, "no place for reg_token (1, 2, 8)",
               "no place for blocks.1.ls2.gamma (8,)");
}

TEST(Dialect, OtherModelsAreRefusedByWhatTheyAre) {
  expect_error(
      [] {
        read_dialect({{"bert.embeddings.weight", zeros({4, 4})}});
      },
      "the first is \"bert.embeddings.weight\"");
  expect_error([] { read_dialect({}); }, "missing");
  // The norm before the mean (SigLIP's kind) has the class token's names, without that token.
  VitOptions options = tiny_vit;
  options.pool = Pool::avg;
  options.class_token = false;
  NamedTensors state = renamed(state_of_random(Vit(options)), "fc_norm.", "norm.");
  expect_error([&] { read_dialect(state); }, "fc_norm behind it");
}

TEST(Dialect, ShapesTellTheOptions) {
  VitOptions deit3 = tiny_vit, registers = tiny_vit, conv = tiny_vit, bare = tiny_vit;
  deit3.no_embed_class = true;
  deit3.layer_scale = 1;
  registers.registers = 3;
  registers.pool = bare.pool = Pool::avg;
  registers.qkv_bias = bare.class_token = false;
  conv.stem = Stem::conv;
  for (const VitOptions& want : {tiny_vit, deit3, registers, conv, bare}) {
    const ModelWeights read = read_dialect(state_of_random(Vit(want)));
    const auto& got = std::get<VitOptions>(read.options);
    EXPECT_EQ(std::tie(got.image, got.patch, got.channels, got.classes, got.width, got.layers, got.registers),
              std::tie(want.image, want.patch, want.channels, want.classes, want.width, want.layers,
                       want.registers));
    EXPECT_EQ(
        std::tie(got.stem, got.class_token, got.pool, got.no_embed_class, got.layer_scale, got.qkv_bias),
        std::tie(want.stem, want.class_token, want.pool, want.no_embed_class, want.layer_scale,
                 want.qkv_bias));
  }
  GptOptions no_bias = odd_gpt();
  no_bias.bias = false;
  EXPECT_FALSE(std::get<GptOptions>(read_dialect(state_of_random(Gpt(no_bias))).options).bias);
}

TEST(Dialect, ResNetsPassThrough) {
  for (ResNetBlock block : {ResNetBlock::basic, ResNetBlock::bottleneck}) {
    NamedTensors state =
        state_of_random(ResNet({.classes = 5, .width = 2, .blocks = {1, 2}, .block = block}));
    ModelWeights read = read_dialect(state);
    expect_same(read.tensors, state);
    EXPECT_EQ(std::get<ResNetOptions>(read.options).blocks, (std::vector<int64_t>{1, 2}));
    expect_error([&] { read_dialect(without(state, "layer2.1.bn2.running_mean")); },
                 "missing: layer2.1.bn2.running_mean (4,)");
  }
}

// A block's number, or a small tensor in the place of a large one, must not make it build what is not there.
TEST(Dialect, UNetsPassThrough) {
  for (UNetOptions o : {UNetOptions{.channels = 1, .classes = 3, .features = 4, .depth = 3},
                        UNetOptions{.features = 2, .depth = 2, .up = UNetUp::transposed},
                        UNetOptions{.features = 32, .depth = 1, .norm = UNetNorm::group}}) {
    NamedTensors ours = state_of_random(UNet(o));
    ModelWeights weights = read_dialect(ours);
    expect_same(weights.tensors, ours);
    const auto& read = std::get<UNetOptions>(weights.options);
    EXPECT_EQ(std::tuple(read.channels, read.classes, read.features, read.depth, read.up, read.norm),
              std::tuple(o.channels, o.classes, o.features, o.depth, o.up, o.norm));
  }
  NamedTensors wide = state_of_random(UNet({.features = 2, .depth = 2}));
  for (auto& [name, tensor] : wide)
    if (name == "down1.maxpool_conv.1.double_conv.0.weight") tensor = Tensor::zeros({5, 2, 3, 3});
  expect_error([&] { read_dialect(wide); },
               "shape of down1.maxpool_conv.1.double_conv.0.weight: (5, 2, 3, 3)", "wanted 4 and 2 channels");
}

TEST(Dialect, APartOfSeveralNetworksIsTakenByItsName) {
  const NamedTensors all = {{"encoder.norm.weight", Tensor::zeros({1})},
                            {"encoders.norm.weight", Tensor::zeros({2})},
                            {"target_encoder.norm.weight", Tensor::zeros({3})}};
  NamedTensors part = part_of(all, "encoder");
  ASSERT_EQ(part.size(), 1u);
  EXPECT_EQ(part[0].first, "norm.weight");
  EXPECT_EQ(part[0].second.shape(), (Shape{1}));
  EXPECT_TRUE(part_of(all, "predictor").empty());
}

TEST(Dialect, AHostileFileIsRefusedBeforeAModelIsMade) {
  NamedTensors state = state_of_random(Vit(tiny_vit));
  expect_error([&] { read_dialect(renamed(state, "blocks.1.norm1.bias", "blocks.999999999.norm1.bias")); },
               "block 999999999 in a file of");
  NamedTensors wide = state;
  for (auto& [name, tensor] : wide)
    if (name == "patch_embed.proj.weight") tensor = zeros({1 << 20, 1, 1, 1});
  expect_error([&] { read_dialect(wide); },
               "shape of blocks.0.attn.qkv.weight: (24, 8), wanted (3145728, 1048576)");
}

TEST(Dialect, NothingIsDrawn) {
  NamedTensors state = state_of_random(Vit(tiny_vit));
  manual_seed(5);
  Generator::State before = default_generator().state();
  read_dialect(state);
  EXPECT_EQ(default_generator().state(), before);
}

}  // namespace
}  // namespace reprise::nn
