// LanguageModel: a Gpt or a Llama, as programs that train it and let it write see it.
#pragma once

#include <memory>
#include <variant>

#include "reprise/nn/generation/generate.h"

namespace reprise::apps {

/// What a language model is built from.
using LanguageModelOptions = std::variant<nn::GptOptions, nn::LlamaOptions>;

/// "GPT" or "Llama".
const char* kind_of(const LanguageModelOptions& options);

/// Tokens i64 (B, T) -> logits (B, T, vocab_size).
class LanguageModel {
 public:
  LanguageModel(const LanguageModelOptions& options, Device device);

  Tensor operator()(const Tensor& tokens) const;
  nn::Module& module() const;
  nn::BlockStack& blocks() const;
  int64_t context() const;
  int64_t vocab_size() const;
  Device device() const;
  /// "GPT: 4 layers, 4 heads, width 128, context 64, vocabulary 75: 0.81 M parameters".
  std::string to_string() const;
  std::vector<std::vector<int32_t>> generate(std::span<const std::vector<int32_t>> prompts,
                                             const reprise::GenerateOptions& options) const;

 private:
  std::variant<std::unique_ptr<nn::Gpt>, std::unique_ptr<nn::Llama>> network_;
};

}  // namespace reprise::apps
