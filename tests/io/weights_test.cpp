// Weights by what a file holds, whatever its name says.
#include "reprise/io/weights.h"

#include "reprise/io/llm_c.h"
#include "reprise/io/safetensors.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/tests/support/compare.h"

namespace reprise::io {
namespace {

using namespace testing;

Tensor some(float first) { return Tensor::from<float>({first, first + 1}, {2}); }

TEST(Weights, AreReadFromAFileOrItsFolder) {
  TempFolder folder;
  write_safetensors(folder / "model.safetensors", {{"a", some(1)}}, {{"format", "pt"}});
  for (const std::string& path : {folder.path(), folder / "model.safetensors"}) {
    Weights weights = read_weights(path);
    ASSERT_EQ(weights.tensors.size(), 1u);
    EXPECT_TRUE(same_bits(weights.tensors[0].second, some(1)));
    EXPECT_EQ(weights.metadata.at("format"), "pt");
    EXPECT_EQ(weights.heads, 0);
  }
}

TEST(Weights, AreReadFromShards) {
  TempFolder folder;
  write_safetensors(folder / "a.safetensors", {{"x", some(1)}, {"y", some(3)}});
  write_safetensors(folder / "b.safetensors", {{"z", some(5)}});
  const std::string index = "model.safetensors.index.json";
  folder.write(index, R"({"metadata": {"total_size": 24},
      "weight_map": {"x": "a.safetensors", "z": "b.safetensors", "y": "a.safetensors"}})");
  for (const std::string& path : {folder.path(), folder / index}) {
    Weights weights = read_weights(path);
    std::map<std::string, Tensor> tensors(weights.tensors.begin(), weights.tensors.end());
    ASSERT_EQ(tensors.size(), 3u);
    EXPECT_TRUE(same_bits(tensors.at("y"), some(3)));
    EXPECT_TRUE(same_bits(tensors.at("z"), some(5)));
  }
  auto refused = [&](const std::string& text, const std::string& fact) {
    folder.write(index, text);
    expect_error([&] { read_weights(folder.path()); }, fact);
  };
  refused(R"({"weight_map": {"x": "../a.safetensors"}})",
          "\"../a.safetensors\" is no .safetensors file beside");
  refused(R"({"weight_map": {"x": "a.safetensors"}})", "tensor \"y\" is not of this file");
  refused(R"({"weight_map": {"x": "a.safetensors", "y": "a.safetensors", "w": "a.safetensors"}})",
          "names 3 tensors, the files hold 2");
  refused(R"({"weight_map": {"x": "c.safetensors"}})", "c.safetensors");
  refused("{}", "names no tensors");
}

// A context of 123 tokens puts a brace where safetensors has its first one.
TEST(Weights, OfLlmCAreKnownByTheirFirstBytes) {
  TempFolder folder;
  std::vector<std::pair<std::string, Tensor>> tensors = {{"wte.weight", Tensor::zeros({5, 2})},
                                                         {"wpe.weight", Tensor::zeros({123, 2})}};
  for (const char* norm : {"h.0.ln_1.", "h.0.ln_2.", "ln_f."})
    for (const char* leaf : {"weight", "bias"})
      tensors.emplace_back(std::string(norm) + leaf, Tensor::zeros({2}));
  for (auto [name, rows, columns] : {std::tuple{"attn.c_attn.", 6, 2},
                                     {"attn.c_proj.", 2, 2},
                                     {"mlp.c_fc.", 8, 2},
                                     {"mlp.c_proj.", 2, 8}}) {
    tensors.emplace_back("h.0." + std::string(name) + "weight", Tensor::zeros({rows, columns}));
    tensors.emplace_back("h.0." + std::string(name) + "bias", Tensor::zeros({rows}));
  }
  write_llm_c(folder / "m.bin", {.heads = 2, .tensors = tensors});
  EXPECT_EQ(read_weights(folder / "m.bin").heads, 2);
  EXPECT_EQ(read_weights(folder / "m.bin").tensors.size(), tensors.size());
}

TEST(Weights, PicklesAreRefusedWithTheLineThatConvertsThem) {
  TempFolder folder;
  const std::string zip = std::string("PK\x03\x04") + std::string(20, 'x'),
                    pickle = "\x80\x02}q\x01(XYZXYZXYZ";
  for (const auto& [name, bytes] : {std::pair{"m.pt", zip},
                                    {"m.pth", pickle},
                                    {"m.bin", zip},
                                    {"m.weird", zip},
                                    {"m", pickle},
                                    {"m.ckpt", std::string("anything at all")}}) {
    const std::string path = folder.write(name, bytes);
    expect_error([&] { read_weights(path); }, path, "python3 -c \"import torch;", "torch.load('" + path + "'",
                 "save_file(", folder / "m.safetensors");
  }
  const std::string commands = folder.write("a$(b).pt", zip);
  expect_error([&] { read_weights(commands); }, commands + ": pickles", "torch.load('FILE'",
               "'FILE.safetensors'");
  const std::string arrays = folder.write("m.npz", zip);
  expect_error([&] { read_weights(arrays); }, "npz: " + arrays);
}

TEST(Weights, WhatIsNotThereIsNamed) {
  TempFolder folder;
  expect_error([&] { read_weights(folder / "none"); }, "none", "no such file or folder");
  expect_error([&] { read_weights(folder.path()); }, "no model.safetensors");
  const std::string path = folder.write("m.safetensors", "words");
  expect_error([&] { read_weights(path); }, "safetensors: " + path, "5 bytes are too few");
}

}  // namespace
}  // namespace reprise::io
