#include "reprise/apps/common/models/given_weights.h"

#include <filesystem>

#include "reprise/apps/common/models/gpt_description.h"
#include "reprise/io/file.h"
#include "reprise/io/folder.h"
#include "reprise/io/weights.h"
#include "reprise/train/checkpoint.h"
#include "reprise/train/manifest.h"

namespace reprise::apps {
namespace {

namespace fs = std::filesystem;

constexpr int64_t widest_gpt2 = 1600;
constexpr double gpt2_eps = 1e-5;

// A run or a checkpoint of ours, not a folder of another program.
bool is_own(const std::string& folder) {
  auto has = [&](const char* name) { return io::exists(folder + "/" + name); };
  return fs::is_directory(folder) && (has("checkpoints") || has(train::manifest_name) || has("config.toml"));
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
  int64_t heads = told > 0 ? told : given.heads > 0 ? given.heads : config.heads;
  if (heads == 0 && given.description.contains("heads"))
    heads = number_in_entry<int64_t>(given.description, "heads");
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

nn::GptOptions gpt_options_of(const GivenWeights& given, const ModelConfig& config,
                              const nn::GptOptions& shapes, int64_t told_heads,
                              std::vector<std::string>& assumed) {
  nn::GptOptions o = shapes;
  if (!given.description.empty()) o.dropout = gpt_options_from(given.description).dropout;
  auto refuse = [&](const auto&... fact) { fail(config.file, ": ", fact..., ": no such model here"); };
  const std::string& activation = config.activation;
  if (!activation.empty() && activation != "gelu_new" && activation != "gelu_pytorch_tanh")
    refuse("activation_function ", activation);
  if (config.norm_eps.value_or(gpt2_eps) != gpt2_eps) refuse("layer_norm_epsilon ", *config.norm_eps);
  if (config.scaled_by_layer) refuse("scale_attn_by_inverse_layer_idx");
  o.heads = heads_of(given, config, told_heads, shapes.width, widest_gpt2, assumed);
  return o;
}

}  // namespace reprise::apps
