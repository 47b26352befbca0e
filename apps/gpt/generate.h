// Text from a model.
#pragma once

#include <string>
#include <vector>

#include "reprise/apps/gpt/options.h"
#include "reprise/io/text/token_dataset.h"
#include "reprise/io/text/tokenizer.h"

namespace reprise::apps::gpt {

/// The ids of a prompt. Error naming --prompt if it cannot be encoded.
std::vector<int32_t> prompt_ids(const io::Tokenizer& tokenizer, const std::string& prompt);

/// Continues `options.prompt` by `options.tokens` tokens; `number` is the sample's, so that samples differ.
/// The model sees what its context holds (nn/generation/generate.h). Without a tokenizer the prompt is ignored and the text is token
/// ids. Error if the prompt cannot be encoded. train::Interrupted after a signal, as is `evaluate`.
std::string generate(nn::Gpt& model, const io::Tokenizer* tokenizer, const GenerateOptions& options,
                     int64_t number);

/// Mean cross-entropy over `data`, in nats a token, weighed by tokens; `batches` 0: all of it, else that many
/// spread evenly over it.
double evaluate(nn::Gpt& model, const io::TokenDataset& data, int64_t batch, int64_t batches);

}  // namespace reprise::apps::gpt
