#include "reprise/apps/common/models/language_model.h"

#include <fmt/core.h>

namespace reprise::apps {
namespace {

std::string heads_in_words(const nn::GptOptions& o) { return fmt::format("{} heads", o.heads); }

std::string heads_in_words(const nn::LlamaOptions& o) {
  const bool grouped = o.kv_heads > 0 && o.kv_heads != o.heads;
  return grouped ? fmt::format("{} heads, {} of keys and values", o.heads, o.kv_heads)
                 : fmt::format("{} heads", o.heads);
}

nn::BlockStack& blocks_of(nn::Gpt& model) { return model.h; }
nn::BlockStack& blocks_of(nn::Llama& model) { return model.layers; }

}  // namespace

const char* kind_of(const LanguageModelOptions& options) {
  return std::holds_alternative<nn::GptOptions>(options) ? "GPT" : "Llama";
}

LanguageModel::LanguageModel(const LanguageModelOptions& options, Device device) {
  if (const auto* llama = std::get_if<nn::LlamaOptions>(&options))
    network_ = std::make_unique<nn::Llama>(*llama, device);
  else
    network_ = std::make_unique<nn::Gpt>(std::get<nn::GptOptions>(options), device);
}

Tensor LanguageModel::operator()(const Tensor& tokens) const {
  return std::visit([&](const auto& network) { return (*network)(tokens); }, network_);
}

nn::Module& LanguageModel::module() const {
  return std::visit([](const auto& network) -> nn::Module& { return *network; }, network_);
}

nn::BlockStack& LanguageModel::blocks() const {
  return std::visit([](const auto& network) -> nn::BlockStack& { return blocks_of(*network); }, network_);
}

int64_t LanguageModel::context() const {
  return std::visit([](const auto& network) { return network->options().context; }, network_);
}

int64_t LanguageModel::vocab_size() const {
  return std::visit([](const auto& network) { return network->options().vocab_size; }, network_);
}

Device LanguageModel::device() const { return module().parameters().at(0).device(); }

std::string LanguageModel::to_string() const {
  return std::visit(
      [&](const auto& network) {
        const auto& o = network->options();
        return fmt::format("{}: {} layers, {}, width {}, context {}, vocabulary {}: {:.2f} M parameters",
                           kind_of(o), o.layers, heads_in_words(o), o.width, o.context, o.vocab_size,
                           double(network->parameter_count()) / 1e6);
      },
      network_);
}

std::vector<std::vector<int32_t>> LanguageModel::generate(std::span<const std::vector<int32_t>> prompts,
                                                          const reprise::GenerateOptions& options) const {
  return std::visit([&](const auto& network) { return reprise::generate(*network, prompts, options); },
                    network_);
}

}  // namespace reprise::apps
