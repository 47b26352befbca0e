// The data of a run: tokens to train on, tokens held out, and the tokenizer that made them.
#pragma once

#include <memory>

#include "reprise/apps/gpt/options.h"
#include "reprise/io/text/token_dataset.h"
#include "reprise/io/text/tokenizer.h"

namespace reprise::apps::gpt {

struct Corpus {
  std::unique_ptr<io::Tokenizer> tokenizer;  ///< null for token files without a vocabulary
  std::unique_ptr<io::TokenDataset> train, validation;
  int64_t vocab_size = 0;
};

/// Whether --data is a file of tokens, or a folder that has one.
bool is_token_data(const std::string& path);

/// Reads what the options name. `known`: the tokenizer of an earlier run, used instead of making one from the
/// text. Error naming the option, file and value that is wrong.
Corpus load_corpus(const DataOptions& options, std::unique_ptr<io::Tokenizer> known);

}  // namespace reprise::apps::gpt
