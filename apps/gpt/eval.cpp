// reprise-gpt eval.
#include <cmath>

#include "reprise/apps/common/config_file.h"
#include "reprise/apps/common/memory_advice.h"
#include "reprise/apps/common/training_run.h"
#include "reprise/apps/common/validators.h"
#include "reprise/apps/gpt/corpus.h"
#include "reprise/apps/gpt/generate.h"
#include "reprise/apps/gpt/model.h"
#include "reprise/apps/gpt/options.h"
#include "reprise/core/number_in.h"
#include "reprise/io/folder.h"
#include "reprise/train/output.h"

namespace reprise::apps::gpt {

namespace {

// The data options that a run was started with.
DataOptions trained_on(const std::string& run_folder) {
  std::string path = run_folder + "/config.toml";
  check(io::exists(path), "--data is missing, and there is no ", path, " that says what it was");
  std::map<std::string, std::string> config = read_config(path);
  DataOptions data{.data = config["data"],
                   .val_data = config["val-data"],
                   .vocab = config["vocab"],
                   .merges = config["merges"]};
  check(!data.data.empty() && data.data != "-", "--data is missing, and ", run_folder,
        " learned from standard input");
  if (config.contains("val-fraction")) {
    std::string complaint = fraction()(config["val-fraction"]);
    check(complaint.empty(), path, ": val-fraction: ", complaint);
    data.val_fraction = *number_in<double>(config["val-fraction"]);
  }
  return data;
}

}  // namespace

int run_eval(const EvalCommand& command) {
  const Device device = Device::parse(command.device);
  use_attention(command.attention, device);
  LoadedRun run = load_run(command.run, device);
  const train::PrecisionScope precision = precision_scope(command, device, run.folder);
  take_precision(run.model->module(), command, run.folder);
  DataOptions data = command.data.data.empty() ? trained_on(run.folder) : command.data;
  const bool is_known = run.tokenizer || !data.vocab.empty() || is_token_data(data.data);
  data.vocab_size = is_known ? run.model->vocab_size() : 0;  // else the text's own, to be compared
  Corpus corpus = load_corpus(data, std::move(run.tokenizer));
  check(corpus.vocab_size == run.model->vocab_size(), "eval: the data has a vocabulary of ",
        corpus.vocab_size, ", the model of ", run.folder, " one of ", run.model->vocab_size());
  check(command.context <= run.model->context(), "--context ", command.context, ": the model of ", run.folder,
        " sees at most ", run.model->context(), " tokens at once");
  const int64_t context = command.context > 0 ? command.context : run.model->context();
  const auto of_rows = [&](int64_t rows) {
    const Tensor tokens = zeros({rows, context}, DType::i64, device);
    return cross_entropy((*run.model)(tokens), tokens);
  };
  const auto alone = distributed::ProcessGroup::alone();
  distributed::DataParallel parallel(run.model->module(), *alone);
  const double loss = with_evaluation_advice(run.model->module(), command.batch, device, of_rows, [&] {
    return evaluate(parallel, *run.model, *corpus.validation, {.batch = command.batch, .context = context});
  });
  check(std::isfinite(loss), "eval: the loss of ", run.folder, " over ", data.data, " is ", loss,
        ": its weights are not finite, or too large");
  train::print("validation loss {:.4f} nats a token, perplexity {:.2f}, over {} tokens of {}\n", loss,
               std::exp(loss), corpus.validation->size() - 1, train::for_output(data.data));
  return 0;
}

}  // namespace reprise::apps::gpt
