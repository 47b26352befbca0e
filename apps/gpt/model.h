// A language model and what a run folder keeps to build it again.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "reprise/apps/common/models/language_model.h"
#include "reprise/io/text/tokenizer.h"

namespace reprise::apps::gpt {

/// A language model's tensors and what builds it.
struct LanguageWeights {
  std::string path{};  ///< of what was read: a checkpoint's folder, a file, a folder of another program
  LanguageModelOptions options{};
  nn::NamedTensors tensors{};
  std::vector<std::string> assumed{};  ///< what nothing said, a line each
};

/// Of a run or a checkpoint; of GPT-2 or a Llama as Hugging Face has them (a folder, a file); or of llm.c: sizes by the tensors'
/// shapes, and what these do not tell by the config.json beside them, or by `told_heads` where nothing does. Error naming what is
/// missing or wrong, and where `told_heads`, if it is not 0, is not what they say.
LanguageWeights read_language_weights(const std::string& from, int64_t told_heads = 0);

/// Copies such weights into a model of `options`; of more positions than a Gpt has the first ones. Error listing all that does
/// not fit.
void load_weights(const LanguageModel& model, const LanguageModelOptions& options, const std::string& from);

/// The tokenizer in a run folder, or null if it has none.
std::unique_ptr<io::Tokenizer> saved_tokenizer(const std::string& run_folder);

/// Whether a tokenizer lies beside weights, where `tokenizer_beside` looks for it.
bool has_tokenizer_beside(const std::string& weights);

/// The tokenizer that lies beside weights as `load_weights` takes them: in their run folder, or in their folder or that of the
/// file; or null. Texts end at the tokens that generation_config.json or config.json beside it, or else beside the weights, names.
std::unique_ptr<io::Tokenizer> tokenizer_beside(const std::string& weights);

struct LoadedRun {
  std::string folder;
  std::unique_ptr<LanguageModel> model;
  std::unique_ptr<io::Tokenizer> tokenizer;
};

/// The model of a run folder or checkpoint, on `device`, or of what else `read_language_weights` takes; empty: of the newest run in runs/.
/// Averaged weights where there are any.
LoadedRun load_run(const std::string& run, Device device);

}  // namespace reprise::apps::gpt
