// A GPT and what a run folder keeps to build it again.
#pragma once

#include <memory>
#include <string>

#include "reprise/apps/common/models/gpt_description.h"
#include "reprise/io/text/tokenizer.h"
#include "reprise/nn/models/gpt.h"

namespace reprise::apps::gpt {

/// Copies weights from a run, a checkpoint, or a file of Hugging Face's GPT-2 or llm.c. Error listing all that does not
/// fit.
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
