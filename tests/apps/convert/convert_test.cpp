// reprise-convert from end to end: files of one program become another's and come back. What PyTorch's programs answer with
// them, tools/check_convert.py shows.
// labels: end-to-end
#include <map>

#include "reprise/io/images/png.h"
#include "reprise/io/llm_c.h"
#include "reprise/io/safetensors.h"
#include "reprise/nn/dialects/dialect.h"
#include "reprise/tests/apps/jepa/program.h"
#include "reprise/tests/support/compare.h"
#include "reprise/train/checkpoint.h"

namespace reprise::apps {
namespace {

using namespace testing;
namespace fs = std::filesystem;

const nn::VitOptions tiny_vit{.image = 8, .patch = 4, .classes = 5, .width = 8, .layers = 2, .heads = 2};
constexpr nn::ModelKind hf_vit{nn::Architecture::vit, nn::Naming::hugging_face},
    hf_gpt{nn::Architecture::gpt, nn::Naming::hugging_face};
const std::string vit_config = R"({"num_attention_heads": 2, "layer_norm_eps": 1e-12, "hidden_act": "gelu",
    "id2label": {"1": "b", "0": "a", "2": "c", "3": "\u00e9", "4": "e"}})";

io::NamedViews views(const nn::NamedTensors& tensors) { return {tensors.begin(), tensors.end()}; }

nn::NamedTensors state_of(nn::Module&& model, DType dtype = DType::f32) {
  model.to(dtype);
  nn::NamedTensors state;
  for (const auto& [name, tensor] : model.state_dict()) state.emplace_back(name, tensor.detach());
  return state;
}

// What it prints on standard output.
std::string convert(const std::string& from, const std::string& to, const std::string& out,
                    const Arguments& more = {}) {
  Arguments arguments = {from, "--to", to, "--out", out};
  arguments.insert(arguments.end(), more.begin(), more.end());
  Program program(arguments, "", convert_program());
  EXPECT_EQ(program.wait(), 0) << program.err();
  return program.out();
}

void expect_refused_and_nothing_written(const Arguments& arguments, const std::string& out,
                                        const std::vector<std::string>& parts) {
  Arguments all = arguments;
  all.insert(all.end(), {"--out", out});
  Program program(all, "", convert_program());
  EXPECT_EQ(program.wait(), 2) << program.out();
  for (const std::string& part : parts)
    EXPECT_NE(program.err().find(part), std::string::npos) << program.err() << "lacks: " << part;
  EXPECT_FALSE(fs::exists(out));
  for (const auto& entry : fs::directory_iterator(fs::path(out).parent_path()))
    EXPECT_EQ(entry.path().string().find("unfinished"), std::string::npos) << entry.path();
}

void expect_same_tensors(const std::string& got, const std::string& want) {
  io::SafetensorsFile a(got), b(want);
  EXPECT_EQ(a.tensors().size(), b.tensors().size());
  for (const io::SafetensorInfo& info : b.tensors()) {
    ASSERT_TRUE(a.find(info.name).has_value()) << info.name;
    EXPECT_TRUE(same_bits(a.read(info.name), b.read(info.name))) << info.name;
  }
  EXPECT_EQ(a.metadata().at("format"), "pt");
}

TEST(Convert, GoesThereAndBackToTheBit) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    TempFolder folder;
    nn::NamedTensors vit = state_of(nn::Vit(tiny_vit), dtype);
    nn::NamedTensors gpt =
        state_of(nn::Gpt({.vocab_size = 23, .context = 11, .layers = 2, .heads = 3, .width = 15}), dtype);
    io::write_safetensors(folder / "timm.safetensors", views(vit));
    io::write_safetensors(folder / "hf.safetensors", views(nn::write_dialect(vit, hf_vit)));
    io::write_safetensors(folder / "gpt.safetensors", views(nn::write_dialect(gpt, hf_gpt)));
    for (const auto& [name, to, heads] :
         {std::tuple{"timm", "timm", "2"}, {"hf", "hf", "2"}, {"gpt", "hf", "3"}}) {
      const std::string file = folder / (std::string(name) + ".safetensors"), ours = folder / name,
                        back = ours + "back";
      convert(file, "reprise", ours, {"--heads", heads});
      convert(ours, to, back);  // which heads there are is in its metadata
      expect_same_tensors(back + "/model.safetensors", file);
    }
    convert(folder / "gpt", "llm.c", folder / "llm");
    convert(folder / "llm/model.bin", "hf", folder / "again");
    expect_same_tensors(folder / "again/model.safetensors", folder / "gpt.safetensors");
    EXPECT_EQ(io::read_llm_c(folder / "llm/model.bin").heads, 3);
  }
}

TEST(Convert, ResNetsKeepTheirNames) {
  TempFolder folder;
  nn::NamedTensors state = state_of(nn::ResNet({.classes = 3, .width = 2, .blocks = {1, 1}}));
  io::write_safetensors(folder / "r.safetensors", views(state));
  convert(folder / "r.safetensors", "reprise", folder / "out");
  expect_same_tensors(folder / "out/model.safetensors", folder / "r.safetensors");
  expect_refused_and_nothing_written({folder / "r.safetensors", "--to", "timm"}, folder / "no",
                                     {"--to timm: of ResNets there are 18, 34 and 50"});
  expect_refused_and_nothing_written({folder / "r.safetensors", "--to", "hf"}, folder / "no",
                                     {"this is a ResNet"});
  expect_refused_and_nothing_written({folder / "r.safetensors", "--to", "llm.c"}, folder / "no",
                                     {"there is GPT-2, this is a ResNet"});
}

TEST(Convert, UNetsKeepTheirNames) {
  TempFolder folder;
  for (nn::UNetUp up : {nn::UNetUp::bilinear, nn::UNetUp::transposed}) {
    const std::string file = folder / "u.safetensors", out = folder / std::to_string(int(up));
    io::write_safetensors(file,
                          views(state_of(nn::UNet({.classes = 3, .features = 4, .depth = 2, .up = up}))));
    convert(file, "reprise", out);
    expect_same_tensors(out + "/model.safetensors", file);
    for (const char* to : {"timm", "hf", "llm.c"})
      expect_refused_and_nothing_written({file, "--to", to}, folder / "no", {"UNet"});
  }
}

// The names of timm's ViT without class token and head, for both encoders of a run.
TEST(Convert, TakesAnEncoderOfAJepa) {
  TempFolder folder;
  const std::string data = tiny_images(folder), run = folder / "run";
  run_jepa(jepa_arguments(data, run, 2, {"--ema", "0.5"}));
  const nn::NamedTensors all = train::load_checkpoint(run, false).parameters;
  for (const char* part : {"encoder", "target_encoder"}) {
    const std::string out = folder / part;
    convert(run, "timm", out, {"--part", part});
    io::SafetensorsFile file(out + "/model.safetensors");
    size_t found = 0;
    for (const auto& [name, tensor] : nn::part_of(all, part)) {
      ASSERT_TRUE(file.find(name).has_value()) << name;
      EXPECT_TRUE(same_bits(file.read(name), tensor)) << name;
      ++found;
    }
    EXPECT_EQ(file.tensors().size(), found);
    const std::string config = bytes_of_file(out + "/config.json");
    for (const char* said : {"\"class_token\": false", "\"global_pool\": \"avg\"", "\"fc_norm\": false",
                             "\"num_heads\": 2", "\"num_classes\": 0"})
      EXPECT_NE(config.find(said), std::string::npos) << said << " in " << config;
  }
  const std::string no = folder / "no";
  expect_refused_and_nothing_written({run, "--to", "timm"}, no, {"--part encoder or --part target_encoder"});
  expect_refused_and_nothing_written({folder / "encoder", "--to", "timm", "--part", "encoder"}, no,
                                     {"--part encoder", "is no run of reprise-jepa"});
  expect_refused_and_nothing_written({run, "--to", "hf", "--part", "encoder"}, no, {"a class token"});
}

TEST(Convert, AVitStartsFromAJepasTargetEncoder) {
  TempFolder folder;
  const std::string data = tiny_images(folder), run = folder / "run", vit = folder / "vit";
  run_jepa(jepa_arguments(data, run, 2, {"--ema", "0.5"}));
  const Arguments start = {"--init-from", run,        "--stem", "patch",  "--lr",
                           "0",           "--min-lr", "0",      "--pool", "avg"};
  const std::string said = run_vit(vit_arguments(data, vit, 1, start));
  for (const char* part : {"the target encoder is taken", "becomes that of their mean, fc_norm",
                           "there is no head: it is made anew for 3 classes"})
    EXPECT_NE(said.find(part), std::string::npos) << part << " in " << said;
  std::map<std::string, Tensor> got;
  for (const auto& [name, tensor] : train::load_checkpoint(vit, false).parameters) got.emplace(name, tensor);
  for (const auto& [name, tensor] :
       nn::part_of(train::load_checkpoint(run, false).parameters, "target_encoder"))
    EXPECT_TRUE(same_bits(got.at(name.starts_with("norm.") ? "fc_" + name : name), tensor)) << name;
  Arguments token = start;
  token.back() = "token";
  expect_vit_refused(vit_arguments(data, folder / "no", 1, token), {"--init-from", "cls_token"});
}

// It has no other encoder, and that one starts a ViT.
TEST(Convert, TakesTheEncoderOfALeJepa) {
  TempFolder folder;
  const std::string data = tiny_images(folder), run = folder / "run", out = folder / "out",
                    vit = folder / "vit";
  run_jepa(lejepa_arguments(data, run, 2));
  const nn::NamedTensors want = nn::part_of(train::load_checkpoint(run, false).parameters, "encoder");
  convert(run, "timm", out, {"--part", "encoder"});
  io::SafetensorsFile file(out + "/model.safetensors");
  EXPECT_EQ(file.tensors().size(), want.size());
  for (const auto& [name, tensor] : want) EXPECT_TRUE(same_bits(file.read(name), tensor)) << name;
  const std::string no = folder / "no";
  expect_refused_and_nothing_written({run, "--to", "timm"}, no, {"name one by --part encoder"});
  expect_refused_and_nothing_written({run, "--to", "timm", "--part", "target_encoder"}, no,
                                     {"--part target_encoder", "has no such network, but --part encoder"});
  const std::string said = run_vit(vit_arguments(
      data, vit, 1, {"--init-from", run, "--stem", "patch", "--lr", "0", "--min-lr", "0", "--pool", "avg"}));
  EXPECT_NE(said.find("the encoder is taken"), std::string::npos) << said;
  std::map<std::string, Tensor> got;
  for (const auto& [name, tensor] : train::load_checkpoint(vit, false).parameters) got.emplace(name, tensor);
  for (const auto& [name, tensor] : want)
    EXPECT_TRUE(same_bits(got.at(name.starts_with("norm.") ? "fc_" + name : name), tensor)) << name;
}

// config.json says heads, eps and classes, and each written one says them again.
TEST(Convert, KeepsHeadsEpsClassesAndStatistics) {
  TempFolder folder;
  folder.write("hf/config.json", vit_config);
  folder.write("hf/preprocessor_config.json",
               R"({"image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6]})");
  io::write_safetensors(folder / "hf/model.safetensors",
                        views(nn::write_dialect(state_of(nn::Vit(tiny_vit)), hf_vit)));
  EXPECT_EQ(convert(folder / "hf", "reprise", folder / "ours").find("nothing says"), std::string::npos);
  convert(folder / "ours", "hf", folder / "back");
  const std::string config = bytes_of_file(folder / "back/config.json");
  for (const char* part :
       {"\"num_attention_heads\": 2", "\"layer_norm_eps\": 1e-12", "\"3\": \"\u00e9\"", "\"image_size\": 8",
        "\"patch_size\": 4", "\"hidden_size\": 8", "\"intermediate_size\": 32", "\"dtype\": \"float32\""})
    EXPECT_NE(config.find(part), std::string::npos) << part << " in " << config;
  const std::string preprocessor = bytes_of_file(folder / "back/preprocessor_config.json");
  EXPECT_NE(preprocessor.find("\"image_std\": [0.4, 0.5, 0.6]"), std::string::npos) << preprocessor;
  Program timm({folder / "back", "--to", "timm", "--out", folder / "timm"}, "", convert_program());
  EXPECT_EQ(timm.wait(), 0);
  EXPECT_NE(timm.err().find("eps of 1e-6, this model's 1e-12"), std::string::npos) << timm.err();
  const std::string cfg = bytes_of_file(folder / "timm/config.json");
  for (const char* part :
       {"\"num_heads\": 2", "\"mean\": [0.1, 0.2, 0.3]", "\"label_names\": [\"a\", \"b\"", "\"img_size\": 8"})
    EXPECT_NE(cfg.find(part), std::string::npos) << part << " in " << cfg;
}

TEST(Convert, MakesARunThatPredicts) {
  TempFolder folder;
  folder.write("config.json", vit_config);
  io::write_safetensors(folder / "m.safetensors",
                        views(nn::write_dialect(state_of(nn::Vit(tiny_vit)), hf_vit)));
  std::string said = convert(folder / "m.safetensors", "reprise", folder / "ours");
  EXPECT_NE(said.find("nothing says how pixels are normalised"), std::string::npos) << said;
  io::Image gray;
  gray.resize(8, 8, 1);
  const std::string picture = folder.write("gray.png", io::encode_png(gray));
  std::string answer = run_vit({"predict", picture, "--run", folder / "ours", "--json"});
  EXPECT_NE(answer.find("\"name\": \"\u00e9\""), std::string::npos) << answer;
  // Weights in bf16 compute in f32.
  fs::create_directory(folder / "bf16");
  io::write_safetensors(
      folder / "bf16/gpt.safetensors",
      views(state_of(nn::Gpt({.vocab_size = 9, .context = 4, .layers = 1, .heads = 1, .width = 4}),
                     DType::bf16)));
  convert(folder / "bf16/gpt.safetensors", "llm.c", folder / "llm", {"--heads", "1"});
  convert(folder / "llm/model.bin", "reprise", folder / "gpt");
  std::string ids = run({"sample", "--run", folder / "gpt", "--sample-tokens", "3"});
  EXPECT_EQ(std::count(ids.begin(), ids.end(), ' '), 4) << ids;
}

// Another image size, other classes, Hugging Face's names: all at once.
TEST(Convert, IsNotNeededToStartFromSuchWeights) {
  TempFolder folder;
  const std::string data = tiny_images(folder);
  nn::VitOptions options = tiny_vit;
  options.patch = 2;
  options.image = 12;
  options.channels = 1;
  io::write_safetensors(folder / "m.safetensors",
                        views(nn::write_dialect(state_of(nn::Vit(options)), hf_vit)));
  const Arguments same = {"--width", "8", "--layers", "2", "--stem", "patch", "--pool", "token"};
  Arguments arguments = same;
  arguments.insert(arguments.end(), {"--init-from", folder / "m.safetensors"});
  std::string said = run_vit(vit_arguments(data, folder / "run", 1, arguments));
  EXPECT_NE(said.find("m.safetensors: positions of 6 x 6 patches are resampled to 4 x 4\n"),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("m.safetensors: the head is for 5 classes: it is made anew for 3\n"), std::string::npos)
      << said;
  io::write_safetensors(folder / "r.safetensors",
                        views(state_of(nn::ResNet({.classes = 3, .width = 2, .blocks = {1, 1}}))));
  arguments.back() = folder / "r.safetensors";
  expect_vit_refused(vit_arguments(data, folder / "no", 1, arguments),
                     {"--init-from", "of no vision transformer"});
}

TEST(Convert, WhatDoesNotFitIsOneErrorAndNothingIsWritten) {
  TempFolder folder;
  nn::NamedTensors vit = state_of(nn::Vit(tiny_vit));
  vit.emplace_back("spare", Tensor::zeros({2}));
  for (auto& [name, tensor] : vit)
    if (name == "blocks.1.mlp.fc1.weight") tensor = Tensor::zeros({31, 8});
  const std::string file = folder / "m.safetensors", no = folder / "no";
  io::write_safetensors(file, views(vit));
  expect_refused_and_nothing_written(
      {file, "--to", "hf", "--heads", "2"}, no,
      {file, "shape of blocks.1.mlp.fc1.weight: (31, 8), wanted (32, 8)", "unknown: spare (2,)"});
  nn::VitOptions scaled = tiny_vit;
  scaled.layer_scale = 0.1;
  io::write_safetensors(file, views(state_of(nn::Vit(scaled))));
  expect_refused_and_nothing_written({file, "--to", "hf", "--heads", "2"}, no,
                                     {"no place for blocks.0.ls1.gamma (8,)"});
  expect_refused_and_nothing_written({file, "--to", "llm.c", "--heads", "2"}, no,
                                     {"there is GPT-2, this is a ViT"});
  expect_refused_and_nothing_written({file, "--to", "timm"}, no, {"--heads: neither", "a width of 8"});
  expect_refused_and_nothing_written({file, "--to", "timm", "--heads", "3"}, no,
                                     {"3 heads do not divide a width of 8"});
  folder.write("config.json", R"({"num_attention_heads": 2, "hidden_act": "relu"})");
  expect_refused_and_nothing_written({file, "--to", "timm"}, no,
                                     {"config.json: hidden_act relu: no such model here"});
  folder.write("config.json", R"({"num_attention_heads": 2, "id2label": {"0": "a", "1": "b"}})");
  expect_refused_and_nothing_written({file, "--to", "timm"}, no, {"2 names of classes, the head has 5"});
}

TEST(Convert, AModelThatTheOtherProgramLacksIsRefused) {
  TempFolder folder;
  nn::VitOptions conv = tiny_vit, deit3 = tiny_vit, rms = tiny_vit, qk_norm = tiny_vit;
  rms.norm = nn::NormKind::rms;
  qk_norm.qk_norm = true;
  conv.stem = nn::Stem::conv;
  deit3.no_embed_class = true;
  nn::GptOptions no_bias{.vocab_size = 5, .context = 4, .layers = 1, .heads = 1, .width = 4, .bias = false};
  const std::string file = folder / "m.safetensors", no = folder / "no";
  io::write_safetensors(file, views(state_of(nn::Vit(conv))));
  expect_refused_and_nothing_written({file, "--to", "timm", "--heads", "2"}, no, {"patch_embed.stem"});
  io::write_safetensors(file, views(state_of(nn::Vit(deit3))));
  expect_refused_and_nothing_written({file, "--to", "hf", "--heads", "2"}, no,
                                     {"a class token with a position of its own"});
  for (auto [options, what] : {std::pair{rms, "has RMSNorm"}, {qk_norm, "has norms of q and k"}}) {
    io::write_safetensors(file, views(state_of(nn::Vit(options))));
    for (const char* to : {"timm", "hf"})
      expect_refused_and_nothing_written({file, "--to", to, "--heads", "2"}, no, {what});
  }
  io::write_safetensors(file, views(state_of(nn::Gpt(no_bias))));
  expect_refused_and_nothing_written({file, "--to", "hf", "--heads", "1"}, no, {"a GPT-2 there has biases"});
  expect_refused_and_nothing_written({file, "--to", "llm.c", "--heads", "1"}, no,
                                     {"missing: h.0.ln_1.bias (4,)"});
  expect_refused_and_nothing_written({file, "--to", "timm", "--heads", "1"}, no, {"timm has no GPT"});
  folder.write("config.json", R"({"n_head": 1, "activation_function": "relu"})");
  expect_refused_and_nothing_written({file, "--to", "reprise"}, no,
                                     {"activation_function relu: no such model here"});
}

TEST(Convert, OverwritesNothing) {
  TempFolder folder;
  io::write_safetensors(folder / "m.safetensors", views(state_of(nn::Vit(tiny_vit))));
  folder.write("out/mine", "text");
  Program program({folder / "m.safetensors", "--to", "timm", "--heads", "2", "--out", folder / "out"}, "",
                  convert_program());
  EXPECT_EQ(program.wait(), 2);
  EXPECT_NE(program.err().find("is there already"), std::string::npos) << program.err();
  EXPECT_EQ(bytes_of_file(folder / "out/mine"), "text");
  fs::remove(folder / "out/mine");
  convert(folder / "m.safetensors", "timm", folder / "out", {"--heads", "2"});  // an empty one is taken
  EXPECT_TRUE(fs::exists(folder / "out/model.safetensors"));
}

}  // namespace
}  // namespace reprise::apps
