// reprise-gpt eval.
#include <fmt/core.h>

#include <cmath>

#include "reprise/apps/gpt/corpus.h"
#include "reprise/apps/gpt/generate.h"
#include "reprise/apps/gpt/model.h"
#include "reprise/apps/gpt/options.h"

namespace reprise::apps::gpt {

int run_eval(const EvalCommand& command) {
  LoadedRun run = load_run(command.run);
  DataOptions data = command.data;
  data.vocab_size = run.model->options().vocab_size;
  Corpus corpus = load_corpus(data, std::move(run.tokenizer));
  check(corpus.vocab_size == run.model->options().vocab_size, "eval: the data has a vocabulary of ",
        corpus.vocab_size, ", the model of ", run.folder, " one of ", run.model->options().vocab_size);
  double loss = evaluate(*run.model, *corpus.validation, command.batch, 0);
  fmt::print("validation loss {:.4f} nats a token, perplexity {:.2f}, over {} tokens of {}\n", loss,
             std::exp(loss), corpus.validation->size() - 1, data.data);
  return 0;
}

}  // namespace reprise::apps::gpt
