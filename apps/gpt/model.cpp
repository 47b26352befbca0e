// Building and loading GPTs.
#include "reprise/apps/gpt/model.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "reprise/apps/common/training_run.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/core/number_in.h"
#include "reprise/core/quote.h"
#include "reprise/io/folder.h"
#include "reprise/train/checkpoint.h"
#include "reprise/train/option_error.h"

namespace reprise::apps::gpt {
namespace {

namespace fs = std::filesystem;

template <class Number>
Number entry_in(const std::map<std::string, std::string>& description, const char* key) {
  auto found = description.find(key);
  check(found != description.end(), "its description of the model lacks \"", key, "\"");
  std::optional<Number> value = number_in<Number>(found->second);
  check(value && *value >= 0 && *value <= Number(1e9), "\"", key, "\" of the model is ", quote(found->second),
        ", not ", std::is_integral_v<Number> ? "a whole number" : "a number", " from 0 to 1e9");
  return *value;
}

nn::GptOptions options_from(const std::map<std::string, std::string>& description) {
  auto whole = [&](const char* key) { return entry_in<int64_t>(description, key); };
  return {.vocab_size = whole("vocab_size"),
          .context = whole("context"),
          .layers = whole("layers"),
          .heads = whole("heads"),
          .width = whole("width"),
          .dropout = entry_in<double>(description, "dropout"),
          .bias = whole("bias") != 0};
}

std::string short_text(double value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

// Hugging Face keeps GPT-2's matrices as (in, out), under an optional "transformer." prefix, with two mask
// buffers.
bool is_hugging_face(const nn::NamedTensors& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const auto& entry) {
    return entry.first.ends_with("h.0.attn.c_attn.weight") && entry.second.rank() == 2 &&
           entry.second.size(1) == 3 * entry.second.size(0);
  });
}

nn::NamedTensors from_hugging_face(const nn::NamedTensors& tensors) {
  NoGrad guard;
  nn::NamedTensors out;
  for (const auto& [full_name, tensor] : tensors) {
    std::string name = full_name.starts_with("transformer.") ? full_name.substr(12) : full_name;
    if (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name == "lm_head.weight")
      continue;
    bool transposed = name.starts_with("h.") && tensor.rank() == 2;
    out.emplace_back(name, transposed ? tensor.transpose(0, 1).contiguous() : tensor);
  }
  return out;
}

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

std::map<std::string, std::string> describe(const nn::GptOptions& o) {
  return {{"vocab_size", std::to_string(o.vocab_size)},
          {"context", std::to_string(o.context)},
          {"layers", std::to_string(o.layers)},
          {"heads", std::to_string(o.heads)},
          {"width", std::to_string(o.width)},
          {"dropout", short_text(o.dropout)},
          {"bias", o.bias ? "1" : "0"}};
}

void load_weights(nn::Gpt& model, const std::string& from) {
  train::Checkpoint checkpoint = train::load_checkpoint(from, false);
  nn::NamedTensors& weights = checkpoint.ema.empty() ? checkpoint.parameters : checkpoint.ema;
  model.load_state_dict(is_hugging_face(weights) ? from_hugging_face(weights) : weights);
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
      nn::GptOptions described = options_from(checkpoint.model);
      check_described(described, weights);
      loaded.model = std::make_unique<nn::Gpt>(described, device);
      loaded.model->load_state_dict(weights);
    });
    loaded.folder = io::exists(path + "/model.safetensors") ? run_folder_of(path) : path;
    loaded.tokenizer = saved_tokenizer(loaded.folder);
    return std::move(loaded);
  });
}

}  // namespace reprise::apps::gpt
