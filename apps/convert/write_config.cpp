// Writing of what the readers of weights want beside them.
#include <array>
#include <set>
#include <utility>

#include "reprise/apps/convert/model_config.h"
#include "reprise/io/json.h"
#include "reprise/io/text/end_tokens.h"

namespace reprise::apps::convert {
namespace {

using io::json_number;
using io::json_quote;

// A JSON object, a member a line.
class Object {
 public:
  Object& add(const char* key, const std::string& json) {
    text_ += (text_.empty() ? "" : ",\n") + ("  " + json_quote(key)) + ": " + json;
    return *this;
  }
  Object& add(const char* key, const char* json) { return add(key, std::string(json)); }
  Object& add(const char* key, int64_t number) { return add(key, std::to_string(number)); }
  Object& add(const char* key, double number) { return add(key, json_number(number)); }
  Object& add(const char* key, bool value) { return add(key, value ? "true" : "false"); }
  std::string str() const { return "{\n" + text_ + "\n}"; }

 private:
  std::string text_;
};

template <class List, class ToJson>
std::string listed(const List& list, const ToJson& to_json) {
  std::string text;
  for (const auto& item : list) text += (text.empty() ? "" : ", ") + to_json(item);
  return text;
}

std::string array_of(const std::vector<double>& numbers) {
  return "[" + listed(numbers, [](double number) { return json_number(number); }) + "]";
}

std::string array_of(const std::vector<std::string>& words) {
  return "[" + listed(words, [](const std::string& word) { return json_quote(word); }) + "]";
}

std::string input_size(int64_t channels, int64_t image) {
  return "[" + std::to_string(channels) + ", " + std::to_string(image) + ", " + std::to_string(image) + "]";
}

std::string labels(const std::vector<std::string>& names) {
  int64_t number = 0;
  auto member = [&](const std::string& name) {
    return json_quote(std::to_string(number++)) + ": " + json_quote(name);
  };
  return "{" + listed(names, member) + "}";
}

std::string numbers_of_labels(const std::vector<std::string>& names) {
  int64_t number = 0;
  auto member = [&](const std::string& name) { return json_quote(name) + ": " + std::to_string(number++); };
  return "{" + listed(names, member) + "}";
}

// The nearest of timm's models; what differs stands in model_args.
std::string timm_architecture(const nn::VitOptions& o) {
  for (const char* name : {"tiny", "small", "large"}) {
    const nn::VitOptions preset = nn::vit_preset(name);
    if (o.width == preset.width && o.layers == preset.layers)
      return "vit_" + std::string(name) + "_patch16_224";
  }
  return "vit_base_patch16_224";
}

const char* torch_name(DType dtype) {
  return dtype == DType::bf16  ? "\"bfloat16\""
         : dtype == DType::f16 ? "\"float16\""
         : dtype == DType::f64 ? "\"float64\""
                               : "\"float32\"";
}

// What timm's pretrained_cfg says of any classifier.
Object pretrained_cfg(const Classifier& c) {
  Object cfg;
  cfg.add("num_classes", int64_t(c.class_names.size()))
      .add("input_size", input_size(c.channels(), c.image))
      .add("crop_pct", c.crop)
      .add("mean", array_of(c.mean))
      .add("std", array_of(c.deviation));
  return cfg;
}

std::string vit_config(const Classifier& c, const nn::VitOptions& o) {
  const bool has_head = o.pool != nn::Pool::none;
  const char* pool = o.pool == nn::Pool::avg || !o.class_token ? "\"avg\"" : "\"token\"";
  Object arguments, config, cfg = pretrained_cfg(c);
  arguments.add("img_size", o.image)
      .add("patch_size", o.patch)
      .add("in_chans", o.channels)
      .add("embed_dim", o.width)
      .add("depth", o.layers)
      .add("num_heads", o.heads)
      .add("class_token", o.class_token)
      .add("reg_tokens", o.registers)
      .add("no_embed_class", o.no_embed_class)
      .add("global_pool", pool)
      .add("fc_norm", o.pool == nn::Pool::avg)
      .add("qkv_bias", o.qkv_bias)
      .add("init_values", o.layer_scale > 0 ? json_number(o.layer_scale) : "null");
  cfg.add("fixed_input_size", true)
      .add("interpolation", "\"bicubic\"")
      .add("first_conv", "\"patch_embed.proj\"")
      .add("classifier", "\"head\"");
  config.add("architecture", json_quote(timm_architecture(o)))
      .add("num_classes", o.classes)
      .add("num_features", o.width)
      .add("global_pool", pool);
  if (has_head) config.add("label_names", array_of(c.class_names));
  return config.add("model_args", arguments.str()).add("pretrained_cfg", cfg.str()).str() + "\n";
}

std::string resnet_config(const Classifier& c, const nn::ResNetOptions& o) {
  for (const char* name : {"18", "34", "50"}) {
    const nn::ResNetOptions preset = nn::resnet_preset(name);
    if (o.blocks != preset.blocks || o.block != preset.block || o.width != preset.width ||
        o.stem != preset.stem)
      continue;
    Object config, cfg = pretrained_cfg(c);
    cfg.add("interpolation", "\"bilinear\"").add("first_conv", "\"conv1\"").add("classifier", "\"fc\"");
    return config.add("architecture", json_quote("resnet" + std::string(name)))
               .add("num_classes", o.classes)
               .add("label_names", array_of(c.class_names))
               .add("pretrained_cfg", cfg.str())
               .str() +
           "\n";
  }
  fail("--to timm: of ResNets there are 18, 34 and 50, with 64 channels and a 7 x 7 stem");
}

}  // namespace

std::string timm_config(const Classifier& c) {
  if (const auto* resnet = std::get_if<nn::ResNetOptions>(&c.model)) return resnet_config(c, *resnet);
  return vit_config(c, std::get<nn::VitOptions>(c.model));
}

std::string hf_config(const Classifier& c, DType dtype) {
  const auto& o = std::get<nn::VitOptions>(c.model);
  const bool has_head = o.pool != nn::Pool::none;
  Object config;
  config.add("architectures", has_head ? "[\"ViTForImageClassification\"]" : "[\"ViTModel\"]")
      .add("model_type", "\"vit\"")
      .add("dtype", torch_name(dtype))
      .add("image_size", o.image)
      .add("patch_size", o.patch)
      .add("num_channels", o.channels)
      .add("hidden_size", o.width)
      .add("num_hidden_layers", o.layers)
      .add("num_attention_heads", o.heads)
      .add("intermediate_size", 4 * o.width)
      .add("hidden_act", "\"gelu\"")
      .add("layer_norm_eps", o.norm_eps)
      .add("qkv_bias", o.qkv_bias)
      .add("attention_probs_dropout_prob", o.dropout)
      .add("hidden_dropout_prob", o.dropout);
  if (has_head)
    config.add("id2label", labels(c.class_names)).add("label2id", numbers_of_labels(c.class_names));
  return config.str() + "\n";
}

namespace {

std::string config_of(const nn::GptOptions& o, DType dtype, const std::vector<int32_t>& end_tokens) {
  const int64_t gpt2_vocabulary = 50257;
  Object config;
  config.add("architectures", "[\"GPT2LMHeadModel\"]")
      .add("model_type", "\"gpt2\"")
      .add("dtype", torch_name(dtype))
      .add("vocab_size", o.vocab_size)
      .add("n_positions", o.context)
      .add("n_embd", o.width)
      .add("n_layer", o.layers)
      .add("n_head", o.heads)
      .add("activation_function", "\"gelu_new\"")
      .add("layer_norm_epsilon", 1e-5)
      .add("attn_pdrop", o.dropout)
      .add("embd_pdrop", o.dropout)
      .add("resid_pdrop", o.dropout);
  const std::string end_of_text =
      o.vocab_size >= gpt2_vocabulary ? std::to_string(gpt2_vocabulary - 1) : "null";
  return config.add("bos_token_id", end_of_text)
             .add("eos_token_id", end_tokens.empty() ? end_of_text : io::end_tokens_json(end_tokens))
             .str() +
         "\n";
}

std::string scaling_of(const nn::RopeScaling& s) {
  using Kind = nn::RopeScaling::Kind;
  Object scaling;
  const char* type = s.kind == Kind::linear ? "linear" : s.kind == Kind::llama3 ? "llama3" : "yarn";
  scaling.add("rope_type", json_quote(type)).add("factor", s.factor);
  if (s.kind == Kind::llama3)
    scaling.add("low_freq_factor", s.low_freq_factor).add("high_freq_factor", s.high_freq_factor);
  if (s.kind == Kind::yarn)
    scaling.add("beta_fast", s.beta_fast)
        .add("beta_slow", s.beta_slow)
        .add("attention_factor", cosine_scale(s))
        .add("truncate", s.truncate);
  if (s.kind != Kind::linear) scaling.add("original_max_position_embeddings", s.original_context);
  return scaling.str();
}

struct LlamaKind {
  const char *architecture, *model_type;
};

// Qwen 2 has biases of queries, keys and values, Qwen 3 norms of queries and keys, Mistral a window.
LlamaKind kind_of_llama(const nn::LlamaOptions& o) {
  check(!(o.qk_norm && o.qkv_bias),
        "--to hf: no model there has norms of queries and keys, and biases of these and "
        "of values, but not of the projection behind attention");
  if (o.qk_norm) return {"Qwen3ForCausalLM", "qwen3"};
  if (o.qkv_bias) return {"Qwen2ForCausalLM", "qwen2"};
  if (o.window > 0) return {"MistralForCausalLM", "mistral"};
  return {"LlamaForCausalLM", "llama"};
}

std::string config_of(const nn::LlamaOptions& o, DType dtype, const std::vector<int32_t>& end_tokens) {
  const LlamaKind kind = kind_of_llama(o);
  Object config;
  config.add("architectures", "[" + json_quote(kind.architecture) + "]")
      .add("model_type", json_quote(kind.model_type))
      .add("dtype", torch_name(dtype))
      .add("vocab_size", o.vocab_size)
      .add("max_position_embeddings", o.context)
      .add("hidden_size", o.width)
      .add("intermediate_size", o.hidden)
      .add("num_hidden_layers", o.layers)
      .add("num_attention_heads", o.heads)
      .add("num_key_value_heads", o.kv_heads)
      .add("head_dim", head_dim_of(o))
      .add("hidden_act", "\"silu\"")
      .add("rms_norm_eps", o.norm_eps)
      .add("rope_theta", o.rope_theta)
      .add("tie_word_embeddings", o.tied);
  if (o.rope_scaling.kind != nn::RopeScaling::Kind::none)
    config.add("rope_scaling", scaling_of(o.rope_scaling));
  if (o.window > 0) config.add("sliding_window", o.window);
  if (o.window > 0 && (o.qk_norm || o.qkv_bias)) {
    const std::vector<std::string> types(size_t(o.layers), "sliding_attention");
    config.add("use_sliding_window", true)
        .add("max_window_layers", int64_t(0))
        .add("layer_types", array_of(types));
  }
  return config.add("bos_token_id", "null").add("eos_token_id", io::end_tokens_json(end_tokens)).str() + "\n";
}

}  // namespace

std::string hf_config(const LanguageModelOptions& options, DType dtype,
                      const std::vector<int32_t>& end_tokens) {
  return std::visit([&](const auto& o) { return config_of(o, dtype, end_tokens); }, options);
}

std::string hf_preprocessor(const Classifier& c) {
  const std::string side = std::to_string(c.image);
  const int64_t bicubic = 3;  // Pillow's number
  Object config;
  return config.add("image_processor_type", "\"ViTImageProcessor\"")
             .add("do_resize", true)
             .add("size", "{\"height\": " + side + ", \"width\": " + side + "}")
             .add("resample", bicubic)
             .add("do_rescale", true)
             .add("rescale_factor", 1.0 / 255)
             .add("do_normalize", true)
             .add("image_mean", array_of(c.mean))
             .add("image_std", array_of(c.deviation))
             .str() +
         "\n";
}

}  // namespace reprise::apps::convert
