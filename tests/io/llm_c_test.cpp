// llm.c's checkpoints against files whose bytes are laid out here by hand, from the order in its train_gpt2.py.
#include "reprise/io/llm_c.h"

#include <cstring>

#include "reprise/io/file.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/tests/support/compare.h"

namespace reprise::io {
namespace {

using namespace testing;

// A GPT-2 of 2 layers, width 2, one head, a context of 3, 5 tokens padded to 128.
constexpr int32_t context = 3, vocabulary = 5, layers = 2, width = 2, padded = 128;
constexpr int numbers =
    (vocabulary + context) * width + layers * (12 * width * width + 13 * width) + 2 * width;

std::string bytes_of_words(const std::vector<int32_t>& words) {
  std::string bytes(words.size() * sizeof(int32_t), '\0');
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

std::string header(int32_t version, std::vector<int32_t> words = {20240326, 0, context, vocabulary, layers, 1,
                                                                  width, padded}) {
  words[1] = version;
  words.resize(256);
  return bytes_of_words(words);
}

// The numbers 0, 1, 2, ... in the order of the file; the padding in between is zeros.
template <class Number>
std::string body() {
  std::string bytes;
  for (int i = 0; i < numbers; ++i) {
    Number number(static_cast<float>(i));
    bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
    if (i == vocabulary * width - 1) bytes.append(size_t(padded - vocabulary) * width * sizeof(number), '\0');
  }
  return bytes;
}

// The first half of an f32's bits.
struct Half {
  explicit Half(float value) {
    uint32_t word = 0;
    std::memcpy(&word, &value, sizeof(word));
    bits = uint16_t(word >> 16);
  }
  uint16_t bits;
};

const Tensor& named(const LlmC& model, const std::string& name) {
  for (const auto& entry : model.tensors)
    if (entry.first == name) return entry.second;
  throw Error("no tensor " + name);
}

TEST(LlmC, IsReadKindByKindOverTheLayers) {
  TempFolder folder;
  LlmC model = read_llm_c(folder.write("m.bin", header(3) + body<float>()));
  EXPECT_EQ(model.heads, 1);
  EXPECT_EQ(model.tensors.size(), 2 + 12 * 2 + 2u);
  auto first = [&](const std::string& name) { return named(model, name).to_vector<double>().front(); };
  const double blocks = (vocabulary + context) * width;
  EXPECT_EQ(named(model, "wte.weight").shape(), (Shape{vocabulary, width}));
  EXPECT_EQ(first("wpe.weight"), vocabulary * width);
  EXPECT_EQ(first("h.0.ln_1.weight"), blocks);
  EXPECT_EQ(first("h.1.ln_1.weight"), blocks + 2);
  EXPECT_EQ(first("h.0.ln_1.bias"), blocks + 4);
  EXPECT_EQ(named(model, "h.0.attn.c_attn.weight").shape(), (Shape{3 * width, width}));
  EXPECT_EQ(first("h.1.attn.c_attn.weight"), blocks + 8 + 12);
  EXPECT_EQ(first("h.0.attn.c_attn.bias"), blocks + 8 + 24);
  EXPECT_EQ(named(model, "h.1.mlp.c_proj.weight").shape(), (Shape{width, 4 * width}));
  EXPECT_EQ(first("ln_f.weight"), numbers - 4);
  EXPECT_EQ(first("ln_f.bias"), numbers - 2);
}

TEST(LlmC, IsWrittenAsItWasRead) {
  TempFolder folder;
  for (const std::string& bytes : {header(3) + body<float>(), header(5) + body<Half>()}) {
    LlmC model = read_llm_c(folder.write("a.bin", bytes));
    write_llm_c(folder / "b.bin", model);
    EXPECT_TRUE(read_file(folder / "b.bin") == bytes);
  }
  EXPECT_EQ(read_llm_c(folder / "b.bin").tensors.front().second.dtype(), DType::bf16);
}

TEST(LlmC, WhatItIsNotIsRefusedByName) {
  TempFolder folder;
  auto refused = [&](const std::string& bytes, const std::string& fact) {
    const std::string path = folder.write("m.bin", bytes);
    expect_error([&] { read_llm_c(path); }, path, fact);
  };
  refused(header(3, {20240803, 0, 3, 5, 2, 1, 2, 128}) + body<float>(),
          "a Llama 3 (20240803): no such model here");
  refused(header(2) + body<float>(), "version 2, not 3 (f32) or 5 (bf16)");
  refused(header(3).substr(0, 1000), "1000 bytes are too few");
  refused(header(3) + body<float>() + "x", "its header wants 2680 bytes, the file has 2681");
  refused(header(5) + body<float>(), "bytes, the file has 2680");
  refused(header(3, {20240326, 0, 3, 5, 0, 1, 2, 128}) + body<float>(), "0 layers");
  refused(header(3, {20240326, 0, 3, 5, 2, 1, 2, 0}) + body<float>(), "5 tokens are padded to 0");
  const int32_t huge = 2147483647;
  refused(header(3, {20240326, 0, huge, huge, huge, 1, huge, huge}), "wants more than 1e18 bytes");
}

TEST(LlmC, WritesOnlyAWholeGpt2) {
  TempFolder folder;
  LlmC model = read_llm_c(folder.write("a.bin", header(3) + body<float>()));
  LlmC without = model, mixed = model;
  std::erase_if(without.tensors, [](const auto& entry) { return entry.first == "h.1.ln_1.bias"; });
  without.tensors.emplace_back("extra", Tensor::zeros({2}));
  without.tensors.emplace_back("other", Tensor::zeros({2}));
  expect_error([&] { write_llm_c(folder / "b.bin", without); }, "missing: h.1.ln_1.bias (2,)",
               "1 tensors have no place");
  mixed.tensors.back().second = mixed.tensors.back().second.to(DType::bf16);
  expect_error([&] { write_llm_c(folder / "b.bin", mixed); }, "ln_f.bias is bf16 (2,), wanted f32 (2,)");
  for (auto& entry : mixed.tensors) entry.second = entry.second.to(DType::f16);
  expect_error([&] { write_llm_c(folder / "b.bin", mixed); }, "wte.weight is f16");
  EXPECT_FALSE(std::filesystem::exists(folder / "b.bin"));
}

}  // namespace
}  // namespace reprise::io
