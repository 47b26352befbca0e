// Building and loading GPTs.
#include "reprise/apps/gpt/model.h"

#include <algorithm>
#include <filesystem>

#include "reprise/apps/common/models/given_weights.h"
#include "reprise/apps/common/models/gpt_description.h"
#include "reprise/apps/common/training_run.h"
#include "reprise/io/folder.h"
#include "reprise/nn/dialects/dialect.h"
#include "reprise/nn/dialects/pretrained.h"
#include "reprise/train/option_error.h"
#include "reprise/train/output.h"

namespace reprise::apps::gpt {
namespace {

namespace fs = std::filesystem;

// Sizes that the description gives and the tensors do not have would be allocated before `load_state_dict`
// compares them.
void check_described(const nn::GptOptions& described, const nn::NamedTensors& tensors) {
  auto shape_of = [&](const std::string& name) {
    auto found =
        std::find_if(tensors.begin(), tensors.end(), [&](const auto& entry) { return entry.first == name; });
    return found == tensors.end() ? Shape{} : found->second.shape();
  };
  int64_t layers = 0;
  for (const auto& [name, tensor] : tensors)
    layers += name.starts_with("h.") && name.ends_with(".ln_1.weight");
  auto expect = [&](const char* what, const Shape& got, const Shape& want) {
    check(got == want, "its description of the model has ", what, " ", want, ", its tensors ", got);
  };
  expect("vocabulary and width", shape_of("wte.weight"), {described.vocab_size, described.width});
  expect("context and width", shape_of("wpe.weight"), {described.context, described.width});
  expect("layers", {layers}, {described.layers});
  check(described.heads > 0 && described.width % described.heads == 0, "its description of the model has ",
        described.heads, " heads for a width of ", described.width);
}

}  // namespace

GptWeights read_gpt_weights(const std::string& from, int64_t told_heads) {
  GivenWeights given = read_given_weights(from);
  const ModelConfig config = read_model_config(given.folder);
  return train::about(given.path, [&] {
    GptWeights weights{.path = given.path};
    if (!given.description.empty()) {
      weights.options = gpt_options_from(given.description);
      check_described(weights.options, given.tensors);
      weights.tensors = std::move(given.tensors);
    } else {
      nn::ModelWeights read = nn::read_dialect(std::move(given.tensors));
      const auto* shapes = std::get_if<nn::GptOptions>(&read.options);
      check(shapes, "the weights are of no GPT");
      const bool says = given.heads > 0 || config.heads > 0;
      weights.options = gpt_options_of(given, config, *shapes, says ? 0 : told_heads, weights.assumed);
      weights.tensors = std::move(read.tensors);
    }
    check(told_heads == 0 || told_heads == weights.options.heads, "--heads ", told_heads,
          ": these weights have ", weights.options.heads, " attention heads");
    return weights;
  });
}

void load_weights(nn::Gpt& model, const std::string& from) {
  GptWeights weights = read_gpt_weights(from, model.options().heads);
  for (const std::string& line : weights.assumed) train::warn("warning: {}: {}\n", printable(from), line);
  const int64_t context = model.options().context;
  for (auto& [name, tensor] : weights.tensors)
    if (name == "wpe.weight" && tensor.rank() == 2 && tensor.size(0) > context) {
      train::report("{}: of {} positions the first {} are taken\n", train::for_output(from), tensor.size(0),
                    context);
      tensor = tensor.slice(0, 0, context).contiguous();
    }
  train::about(weights.path,
               [&] { model.load_state_dict(nn::with_dtypes_of(model, std::move(weights.tensors))); });
}

std::unique_ptr<io::Tokenizer> saved_tokenizer(const std::string& run_folder) {
  std::string folder = run_folder + "/tokenizer";
  return io::exists(folder) ? io::load_tokenizer(folder) : nullptr;
}

std::unique_ptr<io::Tokenizer> tokenizer_beside(const std::string& weights) {
  if (auto tokenizer = saved_tokenizer(run_folder_of(weights))) return tokenizer;
  std::error_code none;
  fs::path folder = fs::is_directory(weights, none) ? fs::path(weights) : fs::path(weights).parent_path();
  if (io::exists(folder / "tokenizer")) return io::load_tokenizer(folder / "tokenizer");
  const auto has = [&](const char* name) { return io::exists(folder / name); };
  const bool is_gpt2 =
      (has("vocab.json") && has("merges.txt")) || has("tokenizer.json");  // as Hugging Face has them
  return is_gpt2 ? io::load_tokenizer(folder) : nullptr;
}

LoadedRun load_run(const std::string& run, Device device) {
  LoadedRun loaded;
  std::string path = run.empty() ? newest_run("context") : run;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return train::under_option("--run", [&] {
    GptWeights weights = read_gpt_weights(path);
    for (const std::string& line : weights.assumed) train::warn("warning: {}: {}\n", printable(path), line);
    train::about(weights.path, [&] {
      loaded.model = std::make_unique<nn::Gpt>(weights.options, device);
      loaded.model->load_state_dict(nn::with_dtypes_of(*loaded.model, std::move(weights.tensors)));
    });
    loaded.folder =
        io::exists(path + "/model.safetensors") || !fs::is_directory(path) ? run_folder_of(path) : path;
    loaded.tokenizer = tokenizer_beside(path);
    return std::move(loaded);
  });
}

}  // namespace reprise::apps::gpt
