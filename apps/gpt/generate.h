// Text from a model.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/apps/gpt/options.h"
#include "reprise/distributed/data_parallel/data_parallel.h"
#include "reprise/io/text/token_dataset.h"
#include "reprise/io/text/tokenizer.h"

namespace reprise::apps::gpt {

/// The ids of a prompt. Error naming --prompt if it cannot be encoded.
std::vector<int32_t> prompt_ids(const io::Tokenizer& tokenizer, const std::string& prompt);

/// Continues `options.prompt` by at most `options.tokens` tokens; `number` is the sample's, so that samples differ. `show` gets the text as
/// it comes, the prompt first. It ends before any of the tokenizer's `end_tokens`, unless `options.ignore_eos`, and before any of `options.stop`.
/// The model sees what its context holds (nn/generation/generate.h). Without a tokenizer the prompt is ignored and the text is token
/// ids. Error if the prompt cannot be encoded, or there are texts to stop at and no tokenizer. train::Interrupted after a signal, as is
/// `evaluate`.
void generate(const LanguageModel& model, const io::Tokenizer* tokenizer, const GenerateOptions& options,
              int64_t number, const std::function<void(std::string_view)>& show);

/// The same, as a whole.
std::string generate(const LanguageModel& model, const io::Tokenizer* tokenizer,
                     const GenerateOptions& options, int64_t number);

struct Evaluation {
  int64_t batch = 12;   ///< sequences at once
  int64_t batches = 0;  ///< so many, spread evenly over the data; 0: all of it
  int64_t context = 0;  ///< tokens the model sees at once; 0: as many as it can
};

/// Mean cross-entropy over `data`, in nats per token, weighed by tokens. The ranks of `parallel`, which has this model, share the
/// batches, and all of them call it; the mean has the same bits on any number of them.
double evaluate(distributed::DataParallel& parallel, const LanguageModel& model, const io::TokenDataset& data,
                const Evaluation& evaluation);

}  // namespace reprise::apps::gpt
