// A GPT and what a run folder keeps to build it again.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "reprise/io/text/tokenizer.h"
#include "reprise/nn/models/gpt.h"

namespace reprise::apps::gpt {

/// A GPT's tensors and what builds it.
struct GptWeights {
  std::string path{};  ///< of what was read: a checkpoint's folder, a file, a folder of another program
  nn::GptOptions options{};
  nn::NamedTensors tensors{};
  std::vector<std::string> assumed{};  ///< what nothing said, a line each
};

/// Of a run or a checkpoint; or of GPT-2 as Hugging Face has it (a folder, a file) or llm.c: sizes by the tensors' shapes, and what
/// these do not tell by the config.json beside them, or by `told_heads` where nothing does. Error naming what is missing or wrong,
/// and where `told_heads`, if it is not 0, is not what they say.
GptWeights read_gpt_weights(const std::string& from, int64_t told_heads = 0);

/// Copies such weights; of more positions than the model has the first ones. Error listing all that does not fit.
void load_weights(nn::Gpt& model, const std::string& from);

/// The tokenizer in a run folder, or null if it has none.
std::unique_ptr<io::Tokenizer> saved_tokenizer(const std::string& run_folder);

/// The tokenizer that lies beside weights as `load_weights` takes them: in their run folder, or in their folder or that of the
/// file; or null.
std::unique_ptr<io::Tokenizer> tokenizer_beside(const std::string& weights);

struct LoadedRun {
  std::string folder;
  std::unique_ptr<nn::Gpt> model;
  std::unique_ptr<io::Tokenizer> tokenizer;
};

/// The model of a run folder or checkpoint, on `device`, or of what else `read_gpt_weights` takes; empty: of the newest run in runs/.
/// Averaged weights where there are any.
LoadedRun load_run(const std::string& run, Device device);

}  // namespace reprise::apps::gpt
