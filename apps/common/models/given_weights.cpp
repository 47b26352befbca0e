#include "reprise/apps/common/models/given_weights.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "reprise/apps/common/models/language_description.h"
#include "reprise/io/file.h"
#include "reprise/io/folder.h"
#include "reprise/io/weights.h"
#include "reprise/train/checkpoint.h"
#include "reprise/train/checkpoint/manifest.h"

namespace reprise::apps {
namespace {

namespace fs = std::filesystem;

constexpr int64_t widest_gpt2 = 1600;
constexpr double gpt2_eps = 1e-5;
constexpr int64_t qwen_first_window_layer = 28;  // where a config does not say

// A run or a checkpoint of ours, not a folder of another program.
bool is_own(const std::string& folder) {
  auto has = [&](const char* name) { return io::exists(folder + "/" + name); };
  return fs::is_directory(folder) && (has("checkpoints") || has(train::manifest_name) || has("config.toml"));
}

template <class... Facts>
void refuse(const ModelConfig& config, const Facts&... facts) {
  fail(config.file, ": ", facts..., ": no such model here");
}

// What the description says, of a model of the kind that the tensors are of.
template <class Options>
Options described_as(const GivenWeights& given) {
  const LanguageModelOptions described = language_options_from(given.description);
  const auto* own = std::get_if<Options>(&described);
  check(own, "its description is of a ", kind_of(described), ", its tensors are of a ", kind_of(Options{}));
  return *own;
}

nn::GptOptions options_of(const GivenWeights& given, const ModelConfig& config, nn::GptOptions o,
                          int64_t told_heads, std::vector<std::string>& assumed) {
  const std::string& activation = config.activation;
  if (!activation.empty() && activation != "gelu_new" && activation != "gelu_pytorch_tanh")
    refuse(config, "activation_function ", activation);
  if (config.norm_eps.value_or(gpt2_eps) != gpt2_eps) refuse(config, "layer_norm_epsilon ", *config.norm_eps);
  if (config.scaled_by_layer) refuse(config, "scale_attn_by_inverse_layer_idx");
  o.heads = heads_of(given, config, told_heads, o.width, widest_gpt2, assumed);
  if (!given.description.empty()) o.dropout = described_as<nn::GptOptions>(given).dropout;
  return o;
}

// What a config says that no model here is.
void refuse_other_llamas(const ModelConfig& config) {
  const std::string& type = config.model_type;  // others have these names too, and compute something else
  if (!type.empty() && type != "llama" && type != "mistral" && type != "qwen2" && type != "qwen3")
    refuse(config, "model_type ", type);
  if (!config.activation.empty() && config.activation != "silu")
    refuse(config, "hidden_act ", config.activation);
  if (config.partial_rotary_factor.value_or(1) != 1)
    refuse(config, "partial_rotary_factor ", *config.partial_rotary_factor);
}

// Of `layers`, which all have it or none, as transformers reads a config.
int64_t window_in(const ModelConfig& config, int64_t layers) {
  const bool is_qwen = config.model_type.starts_with("qwen");
  // A Llama's config has no window, whatever stands in it; a Qwen's has to say that it is used.
  if (config.model_type == "llama" || config.window <= 0 || !config.uses_window.value_or(!is_qwen)) return 0;
  if (!is_qwen) return config.window;
  const std::string with = "sliding_attention", without = "full_attention";
  if (config.layer_types.empty()) {
    const int64_t first = config.first_window_layer.value_or(qwen_first_window_layer);
    if (first > 0 && first < layers)
      refuse(config, "max_window_layers ", first, " of ", layers, " layers, of which some have a window");
    return first > 0 ? 0 : config.window;
  }
  for (const std::string& type : config.layer_types) {
    if (type != with && type != without) refuse(config, "layer_types with ", quote(type));
    if (type != config.layer_types[0]) refuse(config, "layer_types of ", with, " and ", without);
  }
  return config.layer_types[0] == with ? config.window : 0;
}

nn::RopeScaling scaling_in(const ModelConfig& config) {
  using Kind = nn::RopeScaling::Kind;
  nn::RopeScaling scaling = config.scaling;
  if (config.rope_type.empty() || config.rope_type == "default") return {};
  if (config.rope_type == "linear")
    scaling.kind = Kind::linear;
  else if (config.rope_type == "llama3")
    scaling.kind = Kind::llama3;
  else if (config.rope_type == "yarn")
    scaling.kind = Kind::yarn;
  else
    refuse(config, "rotary positions scaled by ", config.rope_type);
  const bool is_yarn = scaling.kind == Kind::yarn;
  if (scaling.original_context == 0)
    scaling.original_context = is_yarn ? config.context : nn::RopeScaling{}.original_context;
  if (scaling.factor == 0)
    scaling.factor = is_yarn && config.context > 0 && scaling.original_context > 0
                         ? double(config.context) / double(scaling.original_context)
                         : 1;
  if (is_yarn && scaling.attention_factor == 0 && config.mscale != 0 && config.mscale_all_dim != 0) {
    scaling.attention_factor =
        nn::yarn_scale(scaling.factor, config.mscale) / nn::yarn_scale(scaling.factor, config.mscale_all_dim);
  }
  nn::check_rope_scaling(config.file.c_str(), scaling);
  return scaling;
}

// Channels of all queries.
int64_t queries_of(const nn::LlamaOptions& o) { return o.head_dim > 0 ? o.heads * o.head_dim : o.width; }

// Heads of queries, and of keys as their shapes `o` leave it open.
void take_heads(nn::LlamaOptions& o, int64_t heads, const ModelConfig& config) {
  const int64_t of_queries = queries_of(o), of_keys = of_queries / o.heads * o.kv_heads,
                head_dim = of_queries / heads;
  if (config.head_dim != 0 && config.head_dim != head_dim)
    refuse(config, "head_dim ", config.head_dim, " where the queries have ", of_queries, " channels in ",
           heads, " heads");
  check(!o.qk_norm || heads == o.heads, "--heads ", heads, ": by the norms of queries there are ", o.heads);
  check(of_keys % head_dim == 0, "--heads ", heads, ": heads of ", head_dim, " channels do not divide the ",
        of_keys, " of the keys");
  o.heads = heads;
  o.kv_heads = of_keys / head_dim;
  o.head_dim = of_queries == o.width ? 0 : head_dim;
  if (config.kv_heads != 0 && config.kv_heads != o.kv_heads)
    refuse(config, "num_key_value_heads ", config.kv_heads, " where the keys have ", o.kv_heads, " heads");
}

nn::LlamaOptions options_of(const GivenWeights& given, const ModelConfig& config, nn::LlamaOptions o,
                            int64_t told_heads, std::vector<std::string>& assumed) {
  refuse_other_llamas(config);
  const bool says = told_heads > 0 || given.heads > 0 || config.heads > 0 || !given.description.empty();
  const int64_t heads =
      o.qk_norm && !says ? o.heads : heads_of(given, config, told_heads, queries_of(o), 0, assumed);
  take_heads(o, heads, config);
  if (!given.description.empty()) {
    const auto described = described_as<nn::LlamaOptions>(given);
    for (auto member : {&nn::LlamaOptions::norm_eps, &nn::LlamaOptions::rope_theta})
      o.*member = described.*member;
    o.rope_scaling = described.rope_scaling;
    o.context = described.context;
    o.window = described.window;
    return o;
  }
  o.norm_eps = config.norm_eps.value_or(o.norm_eps);
  o.rope_theta = config.rope_theta.value_or(o.rope_theta);
  o.rope_scaling = scaling_in(config);
  if (config.context > 0)
    o.context = config.context;
  else
    assumed.push_back(
        reprise::detail::join("nothing says how long a sequence may be: ", o.context, " tokens"));
  o.window = window_in(config, o.layers);
  return o;
}

}  // namespace

GivenWeights read_given_weights(const std::string& path) {
  check(io::exists(path), path, ": no such run, checkpoint or file");
  if (is_own(path)) {
    train::Checkpoint checkpoint = train::load_checkpoint(path, false);
    return {.tensors = std::move(checkpoint.ema.empty() ? checkpoint.parameters : checkpoint.ema),
            .description = std::move(checkpoint.model),
            .path = checkpoint.path,
            .folder = checkpoint.path};
  }
  const bool is_empty = fs::is_directory(path) && !io::exists(path + "/model.safetensors") &&
                        !io::exists(path + "/model.safetensors.index.json");
  check(!is_empty, path, ": no checkpoint there, no model.safetensors and no model.safetensors.index.json");
  io::Weights weights = io::read_weights(path);
  GivenWeights given{.tensors = std::move(weights.tensors), .heads = weights.heads, .path = path};
  const std::string prefix = "model.";
  for (const auto& [key, value] : weights.metadata)
    if (key.starts_with(prefix)) given.description[key.substr(prefix.size())] = value;
  given.folder = fs::is_directory(path) ? path : io::parent_folder(path);
  return given;
}

int64_t heads_of(const GivenWeights& given, const ModelConfig& config, int64_t told, int64_t width,
                 int64_t widest, std::vector<std::string>& assumed) {
  const int64_t usual = 64;
  const bool is_described = given.description.contains("heads");
  const int64_t described = is_described ? number_in_entry<int64_t>(given.description, "heads") : 0;
  check(!is_described || told == 0 || told == described, "--heads ", told, ": these weights have ", described,
        " attention heads");
  check(config.heads >= 0, config.file, ": ", config.heads, " attention heads");
  int64_t heads = told > 0 ? told : given.heads > 0 ? given.heads : config.heads;
  if (is_described) heads = described;
  if (heads == 0) {
    check(width % usual == 0 && width <= widest,
          "--heads: neither the weights nor a config.json say how many "
          "attention heads there are for a width of ",
          width);
    heads = width / usual;
    assumed.push_back(reprise::detail::join("nothing says how many attention heads there are: ", heads,
                                            ", of ", usual, " numbers each"));
  }
  check(heads >= 1 && width % heads == 0, "--heads: ", heads, " heads do not divide a width of ", width);
  return heads;
}

bool is_language_model(const nn::ModelOptions& shapes) {
  return std::holds_alternative<nn::GptOptions>(shapes) || std::holds_alternative<nn::LlamaOptions>(shapes);
}

LanguageModelOptions language_options_of(const GivenWeights& given, const ModelConfig& config,
                                         const nn::ModelOptions& shapes, int64_t told_heads,
                                         std::vector<std::string>& assumed) {
  if (const auto* llama = std::get_if<nn::LlamaOptions>(&shapes))
    return options_of(given, config, *llama, told_heads, assumed);
  return options_of(given, config, std::get<nn::GptOptions>(shapes), told_heads, assumed);
}

void leave_out_tied_head(GivenWeights& given, const ModelConfig& config) {
  if (config.tied.value_or(false))
    std::erase_if(given.tensors, [](const auto& entry) { return entry.first == "lm_head.weight"; });
}

}  // namespace reprise::apps
