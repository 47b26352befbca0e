// Building and loading GPTs.
#include "reprise/apps/gpt/model.h"

#include <algorithm>
#include <filesystem>

#include "reprise/apps/common/training_run.h"
#include "reprise/io/folder.h"
#include "reprise/nn/dialects/dialect.h"
#include "reprise/nn/dialects/pretrained.h"
#include "reprise/train/checkpoint.h"
#include "reprise/train/option_error.h"

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

void load_weights(nn::Gpt& model, const std::string& from) {
  train::Checkpoint checkpoint = train::load_checkpoint(from, false);
  nn::NamedTensors& given = checkpoint.ema.empty() ? checkpoint.parameters : checkpoint.ema;
  nn::ModelWeights weights = train::about(from, [&] { return nn::read_dialect(std::move(given)); });
  check(weights.kind.architecture == nn::Architecture::gpt, from, ": the weights are of no GPT");
  model.load_state_dict(nn::with_dtypes_of(model, std::move(weights.tensors)));
}

std::unique_ptr<io::Tokenizer> saved_tokenizer(const std::string& run_folder) {
  std::string folder = run_folder + "/tokenizer";
  return io::exists(folder) ? io::load_tokenizer(folder) : nullptr;
}

std::unique_ptr<io::Tokenizer> tokenizer_beside(const std::string& weights) {
  if (auto tokenizer = saved_tokenizer(run_folder_of(weights))) return tokenizer;
  fs::path folder = fs::path(weights).parent_path();
  if (io::exists(folder / "tokenizer")) return io::load_tokenizer(folder / "tokenizer");
  bool is_gpt2 =
      io::exists(folder / "vocab.json") && io::exists(folder / "merges.txt");  // as Hugging Face has them
  return is_gpt2 ? io::load_tokenizer(folder) : nullptr;
}

LoadedRun load_run(const std::string& run, Device device) {
  LoadedRun loaded;
  std::string path = run.empty() ? newest_run("context") : run;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return train::under_option("--run", [&] {
    train::Checkpoint checkpoint = train::load_checkpoint(path, false);
    check(!checkpoint.model.empty(), path,
          ": holds weights only, not a run: give a run folder or a checkpoint");
    const nn::NamedTensors& weights = checkpoint.ema.empty() ? checkpoint.parameters : checkpoint.ema;
    train::about(checkpoint.path, [&] {
      nn::GptOptions described = gpt_options_from(checkpoint.model);
      check_described(described, weights);
      loaded.model = std::make_unique<nn::Gpt>(described, device);
      loaded.model->load_state_dict(nn::with_dtypes_of(*loaded.model, weights));
    });
    loaded.folder = io::exists(path + "/model.safetensors") ? run_folder_of(path) : path;
    loaded.tokenizer = saved_tokenizer(loaded.folder);
    return std::move(loaded);
  });
}

}  // namespace reprise::apps::gpt
