#include "reprise/apps/common/models/model_config.h"

#include <map>

#include "reprise/core/number_in.h"
#include "reprise/core/quote.h"
#include "reprise/io/file.h"
#include "reprise/io/folder.h"
#include "reprise/io/json.h"

namespace reprise::apps {
namespace {

using io::JsonReader;
using Kind = JsonReader::Kind;

constexpr uint64_t largest_config = 4 << 20;

std::vector<double> read_numbers(JsonReader& json) {
  std::vector<double> numbers;
  json.array([&] { numbers.push_back(json.number()); });
  return numbers;
}

// {"0": "tench", "1": "goldfish"}, in any order.
std::vector<std::string> read_labels(JsonReader& json) {
  const size_t offset = json.offset();
  std::map<int64_t, std::string> labels;
  json.object([&](const std::string& key) { labels[number_in<int64_t>(key).value_or(-1)] = json.string(); });
  std::vector<std::string> names;
  for (auto& [number, name] : labels) {
    if (number != int64_t(names.size())) json.fail_at(offset, "the classes are not numbered from 0 on");
    names.push_back(std::move(name));
  }
  return names;
}

std::vector<std::string> read_names(JsonReader& json) {
  std::vector<std::string> names;
  json.array([&] { names.push_back(json.string()); });
  return names;
}

// What a Llama's config has beside those of others; false: nothing of that.
bool read_llama_member(JsonReader& json, const std::string& key, ModelConfig& config) {
  const Kind kind = json.peek();
  auto is = [&](const char* name, Kind of) { return key == name && kind == of; };
  if (is("num_key_value_heads", Kind::number))
    config.kv_heads = json.integer();
  else if (is("head_dim", Kind::number))
    config.head_dim = json.integer();
  else if (is("max_position_embeddings", Kind::number))
    config.context = json.integer();
  else if (is("sliding_window", Kind::number))
    config.window = json.integer();
  else if (is("use_sliding_window", Kind::boolean))
    config.uses_window = json.boolean();
  else if (is("max_window_layers", Kind::number))
    config.first_window_layer = json.integer();
  else if (is("layer_types", Kind::array))
    config.layer_types = read_names(json);
  else if (is("tie_word_embeddings", Kind::boolean))
    config.tied = json.boolean();
  else if (is("rope_theta", Kind::number))
    config.rope_theta = json.number();
  else if (is("rope_type", Kind::string) || is("type", Kind::string))
    config.rope_type = json.string();
  else if (is("factor", Kind::number))
    config.scaling.factor = json.number();
  else if (is("low_freq_factor", Kind::number))
    config.scaling.low_freq_factor = json.number();
  else if (is("high_freq_factor", Kind::number))
    config.scaling.high_freq_factor = json.number();
  else if (is("original_max_position_embeddings", Kind::number))
    config.scaling.original_context = json.integer();
  else if (is("beta_fast", Kind::number))
    config.scaling.beta_fast = json.number();
  else if (is("beta_slow", Kind::number))
    config.scaling.beta_slow = json.number();
  else if (is("attention_factor", Kind::number))
    config.scaling.attention_factor = json.number();
  else if (is("mscale", Kind::number))
    config.mscale = json.number();
  else if (is("mscale_all_dim", Kind::number))
    config.mscale_all_dim = json.number();
  else if (is("truncate", Kind::boolean))
    config.scaling.truncate = json.boolean();
  else if (is("partial_rotary_factor", Kind::number))
    config.partial_rotary_factor = json.number();
  else if (is("rope_scaling", Kind::object) || is("rope_parameters", Kind::object))  // of transformers 4, 5
    json.object([&](const std::string& inner) {
      if (!read_llama_member(json, inner, config)) json.skip();
    });
  else
    return false;
  return true;
}

// One member of any of the files, or of the objects that timm's has inside.
void read_member(JsonReader& json, const std::string& key, ModelConfig& config) {
  const Kind kind = json.peek();
  auto is = [&](const char* name, Kind of) { return key == name && kind == of; };
  if (is("num_attention_heads", Kind::number) || is("n_head", Kind::number) || is("num_heads", Kind::number))
    config.heads = json.integer();
  else if (is("layer_norm_eps", Kind::number) || is("layer_norm_epsilon", Kind::number) ||
           is("rms_norm_eps", Kind::number))
    config.norm_eps = json.number();
  else if (is("model_type", Kind::string))
    config.model_type = json.string();
  else if (is("crop_pct", Kind::number))
    config.crop = json.number();
  else if (is("hidden_act", Kind::string) || is("activation_function", Kind::string))
    config.activation = json.string();
  else if (is("scale_attn_by_inverse_layer_idx", Kind::boolean))
    config.scaled_by_layer = json.boolean();
  else if (is("mean", Kind::array) || is("image_mean", Kind::array))
    config.mean = read_numbers(json);
  else if (is("std", Kind::array) || is("image_std", Kind::array))
    config.deviation = read_numbers(json);
  else if (is("id2label", Kind::object))
    config.class_names = read_labels(json);
  else if (is("label_names", Kind::array))
    config.class_names = read_names(json);
  else if (is("pretrained_cfg", Kind::object) || is("model_args", Kind::object))
    json.object([&](const std::string& inner) { read_member(json, inner, config); });
  else if (!read_llama_member(json, key, config))
    json.skip();
}

}  // namespace

ModelConfig read_model_config(const std::string& folder) {
  ModelConfig config;
  for (const char* name : {"/config.json", "/preprocessor_config.json"}) {
    const std::string path = folder + name;
    if (!io::exists(path)) continue;
    if (config.file.empty()) config.file = path;
    const std::string text = io::read_file(path, largest_config);
    JsonReader json(text, path);
    json.object([&](const std::string& key) { read_member(json, key, config); });
    json.end();
  }
  return config;
}

}  // namespace reprise::apps
