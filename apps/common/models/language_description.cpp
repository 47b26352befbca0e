#include "reprise/apps/common/models/language_description.h"

#include <cmath>

namespace reprise::apps {
namespace {

constexpr const char* kind_key = "architecture";
constexpr const char* llama_kind = "llama";  // a Gpt's description says none, as those of old

Description description_of(const nn::GptOptions& o) {
  return {{"vocab_size", std::to_string(o.vocab_size)},
          {"context", std::to_string(o.context)},
          {"layers", std::to_string(o.layers)},
          {"heads", std::to_string(o.heads)},
          {"width", std::to_string(o.width)},
          {"dropout", shortest(o.dropout)},
          {"bias", o.bias ? "1" : "0"}};
}

Description description_of(const nn::LlamaOptions& o) {
  Description description = {{kind_key, llama_kind},
                             {"vocab_size", std::to_string(o.vocab_size)},
                             {"context", std::to_string(o.context)},
                             {"layers", std::to_string(o.layers)},
                             {"heads", std::to_string(o.heads)},
                             {"kv_heads", std::to_string(o.kv_heads)},
                             {"width", std::to_string(o.width)},
                             {"hidden", std::to_string(o.hidden)},
                             {"norm_eps", shortest(o.norm_eps)},
                             {"rope_theta", shortest(o.rope_theta)},
                             {"tied", o.tied ? "1" : "0"},
                             {"qkv_bias", o.qkv_bias ? "1" : "0"}};
  // What a Llama of old has not is left out where it is not there.
  if (o.rope_scaling.kind != nn::RopeScaling::Kind::none)
    description["rope_scaling"] = to_string(o.rope_scaling);
  if (o.head_dim > 0) description["head_dim"] = std::to_string(o.head_dim);
  if (o.qk_norm) description["qk_norm"] = "1";
  if (o.window > 0) description["window"] = std::to_string(o.window);
  return description;
}

}  // namespace

Description describe(const LanguageModelOptions& options) {
  return std::visit([](const auto& o) { return description_of(o); }, options);
}

LanguageModelOptions language_options_from(const Description& description) {
  auto whole = [&](const char* key) { return number_in_entry<int64_t>(description, key); };
  auto number = [&](const char* key) { return number_in_entry<double>(description, key); };
  if (!description.contains(kind_key))
    return nn::GptOptions{.vocab_size = whole("vocab_size"),
                          .context = whole("context"),
                          .layers = whole("layers"),
                          .heads = whole("heads"),
                          .width = whole("width"),
                          .dropout = number("dropout"),
                          .bias = whole("bias") != 0};
  const std::string& kind = entry_in(description, kind_key);
  check(kind == llama_kind, "\"", kind_key, "\" of the model is ", quote(kind),
        ": no such language model here");
  const std::string& turn = entry_in(description, "rope_theta");
  const auto theta = number_in<double>(turn);
  check(theta && std::isfinite(*theta) && *theta > 0, "\"rope_theta\" of the model is ", quote(turn),
        ", not a number above 0");
  auto scaling = description.find("rope_scaling");
  auto whole_or_0 = [&](const char* key) { return description.contains(key) ? whole(key) : 0; };
  return nn::LlamaOptions{.vocab_size = whole("vocab_size"),
                          .context = whole("context"),
                          .layers = whole("layers"),
                          .heads = whole("heads"),
                          .kv_heads = whole("kv_heads"),
                          .width = whole("width"),
                          .hidden = whole("hidden"),
                          .head_dim = whole_or_0("head_dim"),
                          .norm_eps = number("norm_eps"),
                          .rope_theta = *theta,
                          .rope_scaling = scaling == description.end()
                                              ? nn::RopeScaling{}
                                              : nn::parse_rope_scaling(scaling->second),
                          .tied = whole("tied") != 0,
                          .qkv_bias = whole("qkv_bias") != 0,
                          .qk_norm = whole_or_0("qk_norm") != 0,
                          .window = whole_or_0("window")};
}

}  // namespace reprise::apps
