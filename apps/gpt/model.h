// A GPT and what a run folder keeps to build it again.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "reprise/io/text/tokenizer.h"
#include "reprise/nn/models/gpt.h"

namespace reprise::apps::gpt {

/// The model's options as text, for a checkpoint.
std::map<std::string, std::string> describe(const nn::GptOptions& options);

/// Copies weights from a run, a checkpoint or a .safetensors file; a file from Hugging Face's GPT-2 is
/// recognised. Error listing all that does not fit.
void load_weights(nn::Gpt& model, const std::string& from);

/// The tokenizer in a run folder, or null if it has none.
std::unique_ptr<io::Tokenizer> saved_tokenizer(const std::string& run_folder);

/// The tokenizer that lies beside weights as `load_weights` takes them: in their run folder, or in the folder
/// of the file; or null.
std::unique_ptr<io::Tokenizer> tokenizer_beside(const std::string& weights);

struct LoadedRun {
  std::string folder;
  std::unique_ptr<nn::Gpt> model;
  std::unique_ptr<io::Tokenizer> tokenizer;
};

/// The model of a run folder or checkpoint, on `device`; empty: of the newest run in runs/. Averaged weights
/// where there are any.
LoadedRun load_run(const std::string& run, Device device);

}  // namespace reprise::apps::gpt
