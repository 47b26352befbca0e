// Building and loading language models.
#include "reprise/apps/gpt/model.h"

#include <algorithm>
#include <filesystem>

#include "reprise/apps/common/models/given_weights.h"
#include "reprise/apps/common/models/language_description.h"
#include "reprise/apps/common/training_run.h"
#include "reprise/io/file.h"
#include "reprise/io/folder.h"
#include "reprise/io/text/end_tokens.h"
#include "reprise/nn/dialects/dialect.h"
#include "reprise/nn/dialects/pretrained.h"
#include "reprise/train/option_error.h"
#include "reprise/train/output.h"

namespace reprise::apps::gpt {
namespace {

namespace fs = std::filesystem;

int64_t heads_of(const LanguageModelOptions& options) {
  return std::visit([](const auto& o) { return o.heads; }, options);
}

// What the names of a model's tensors begin with.
struct Names {
  std::string tokens, block, in_block;  // the last: of a tensor that each block has, behind its number
};
const Names gpt_names = {"wte.weight", "h.", ".ln_1.weight"};
const Names llama_names = {"model.embed_tokens.weight", "model.layers.", ".input_layernorm.weight"};

// Sizes that the description gives and the tensors do not have would be allocated before `load_state_dict`
// compares them.
void check_described(const LanguageModelOptions& described, const nn::NamedTensors& tensors) {
  auto shape_of = [&](const std::string& name) {
    auto found =
        std::find_if(tensors.begin(), tensors.end(), [&](const auto& entry) { return entry.first == name; });
    return found == tensors.end() ? Shape{} : found->second.shape();
  };
  auto expect = [&](const char* what, const Shape& got, const Shape& want) {
    check(got == want, "its description of the model has ", what, " ", want, ", its tensors ", got);
  };
  auto check_sizes = [&](const auto& o, const Names& names) {
    int64_t layers = 0;
    for (const auto& [name, tensor] : tensors)
      layers += name.starts_with(names.block) && name.ends_with(names.in_block);
    expect("vocabulary and width", shape_of(names.tokens), {o.vocab_size, o.width});
    expect("layers", {layers}, {o.layers});
    check(o.heads > 0, "its description of the model has ", o.heads, " heads");
  };
  auto check_divides = [](const auto& o) {
    check(o.width % o.heads == 0, "its description of the model has ", o.heads, " heads for a width of ",
          o.width);
  };
  if (const auto* llama = std::get_if<nn::LlamaOptions>(&described)) {
    check_sizes(*llama, llama_names);
    if (llama->head_dim > 0) {
      const Shape queries = shape_of("model.layers.0.self_attn.q_proj.weight");
      expect("channels of a head", {queries.empty() ? 0 : queries[0] / llama->heads}, {llama->head_dim});
    } else {
      check_divides(*llama);
    }
    if (llama->hidden > 0)
      expect("hidden and width", shape_of("model.layers.0.mlp.gate_proj.weight"),
             {llama->hidden, llama->width});
    return;
  }
  const auto& gpt = std::get<nn::GptOptions>(described);
  check_sizes(gpt, gpt_names);
  check_divides(gpt);
  expect("context and width", shape_of("wpe.weight"), {gpt.context, gpt.width});
}

std::string weights_folder(const std::string& weights) {
  std::error_code none;
  return fs::is_directory(weights, none) ? weights : io::parent_folder(weights);
}

// Of the tokenizer beside weights; empty: there is none.
std::string tokenizer_folder(const std::string& weights) {
  const fs::path folder = weights_folder(weights);
  for (const fs::path& own : {fs::path(run_folder_of(weights) + "/tokenizer"), folder / "tokenizer"})
    if (io::exists(own)) return own;
  const auto has = [&](const char* name) { return io::exists(folder / name); };
  const bool is_bpe =
      (has("vocab.json") && has("merges.txt")) || has("tokenizer.json");  // as Hugging Face has them
  return is_bpe ? folder.string() : "";
}

}  // namespace

LanguageWeights read_language_weights(const std::string& from, int64_t told_heads) {
  GivenWeights given = read_given_weights(from);
  const ModelConfig config = read_model_config(given.folder);
  return train::about(given.path, [&] {
    LanguageWeights weights{.path = given.path};
    if (!given.description.empty()) {
      weights.options = language_options_from(given.description);
      check_described(weights.options, given.tensors);
      weights.tensors = std::move(given.tensors);
    } else {
      leave_out_tied_head(given, config);
      nn::ModelWeights read = nn::read_dialect(std::move(given.tensors));
      check(is_language_model(read.options), "the weights are of no language model");
      const bool says = given.heads > 0 || config.heads > 0;
      weights.options =
          language_options_of(given, config, read.options, says ? 0 : told_heads, weights.assumed);
      weights.tensors = std::move(read.tensors);
    }
    const int64_t heads = heads_of(weights.options);
    check(told_heads == 0 || told_heads == heads, "--heads ", told_heads, ": these weights have ", heads,
          " attention heads");
    return weights;
  });
}

void load_weights(const LanguageModel& model, const LanguageModelOptions& options, const std::string& from) {
  LanguageWeights weights = read_language_weights(from, heads_of(options));
  for (const std::string& line : weights.assumed) train::warn("warning: {}: {}\n", printable(from), line);
  check(weights.options.index() == options.index(), "the model is a ", kind_of(options),
        ", these weights are of a ", kind_of(weights.options));
  const int64_t context = model.context();
  for (auto& [name, tensor] : weights.tensors)
    if (name == "wpe.weight" && tensor.rank() == 2 && tensor.size(0) > context) {
      train::report("{}: of {} positions the first {} are taken\n", train::for_output(from), tensor.size(0),
                    context);
      tensor = tensor.slice(0, 0, context).contiguous();
    }
  nn::Module& module = model.module();
  train::about(weights.path,
               [&] { module.load_state_dict(nn::with_dtypes_of(module, std::move(weights.tensors))); });
}

std::unique_ptr<io::Tokenizer> saved_tokenizer(const std::string& run_folder) {
  std::string folder = run_folder + "/tokenizer";
  return io::exists(folder) ? io::load_tokenizer(folder) : nullptr;
}

bool has_tokenizer_beside(const std::string& weights) { return !tokenizer_folder(weights).empty(); }

std::unique_ptr<io::Tokenizer> tokenizer_beside(const std::string& weights) {
  const std::string folder = tokenizer_folder(weights);
  if (folder.empty()) return nullptr;
  const std::vector<int32_t> ends = io::read_end_tokens(folder);
  return io::load_tokenizer(folder, ends.empty() ? io::read_end_tokens(weights_folder(weights)) : ends);
}

LoadedRun load_run(const std::string& run, Device device) {
  LoadedRun loaded;
  std::string path = run.empty() ? newest_run("context") : run;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return train::under_option("--run", [&] {
    LanguageWeights weights = read_language_weights(path);
    for (const std::string& line : weights.assumed) train::warn("warning: {}: {}\n", printable(path), line);
    train::about(weights.path, [&] {
      loaded.model = std::make_unique<LanguageModel>(weights.options, device);
      nn::Module& module = loaded.model->module();
      module.load_state_dict(nn::with_dtypes_of(module, std::move(weights.tensors)));
    });
    loaded.folder =
        io::exists(path + "/model.safetensors") || !fs::is_directory(path) ? run_folder_of(path) : path;
    loaded.tokenizer = tokenizer_beside(path);
    const int64_t tokens = loaded.tokenizer ? loaded.tokenizer->vocab_size() : 0,
                  rows = loaded.model->vocab_size();
    check(tokens <= rows, path, ": its tokenizer has ", tokens, " tokens, its model ", rows);
    return std::move(loaded);
  });
}

}  // namespace reprise::apps::gpt
