// reprise-gpt train.
#include <chrono>
#include <memory>
#include <optional>
#include <set>

#include "reprise/apps/common/memory_advice.h"
#include "reprise/apps/common/models/language_description.h"
#include "reprise/apps/common/models/model_size.h"
#include "reprise/apps/common/ranks.h"
#include "reprise/apps/common/shared_memory.h"
#include "reprise/apps/common/training_run.h"
#include "reprise/apps/gpt/corpus.h"
#include "reprise/apps/gpt/data_record.h"
#include "reprise/apps/gpt/generate.h"
#include "reprise/apps/gpt/model.h"
#include "reprise/apps/gpt/options.h"
#include "reprise/apps/gpt/resume.h"
#include "reprise/autograd/ops.h"
#include "reprise/core/quote.h"
#include "reprise/io/text/token_batches.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/train/checkpoint.h"
#include "reprise/train/interrupt.h"
#include "reprise/train/option_error.h"
#include "reprise/train/output.h"
#include "reprise/train/run_folder.h"

namespace reprise::apps::gpt {
namespace {

void tell(const std::string& text) { train::warn("warning: {}\n", text); }

void check_numbers(const TrainCommand& c) {
  const bool is_llama = c.model == "llama", has_head_dim = is_llama && c.llama.head_dim > 0;
  check(has_head_dim || c.gpt.width % c.gpt.heads == 0, "--width ", c.gpt.width,
        " is not a multiple of --heads ", c.gpt.heads);
  check(c.llama.head_dim % 2 == 0, "--head-dim ", c.llama.head_dim,
        ": an odd number of channels; rotary positions turn pairs of them");
  check(!is_llama || has_head_dim || c.gpt.width % (2 * c.gpt.heads) == 0, "--width ", c.gpt.width,
        " gives each of --heads ", c.gpt.heads,
        " an odd number of channels; rotary positions turn pairs of them");
  check(!is_llama || c.llama.kv_heads == 0 || c.gpt.heads % c.llama.kv_heads == 0, "--heads ", c.gpt.heads,
        " is not a multiple of --kv-heads ", c.llama.kv_heads);
  check_sampling(c.generate.sampling);
  int64_t tokens = 0;
  check(!__builtin_mul_overflow(c.batch, c.trainer.accumulate, &tokens) &&
            !__builtin_mul_overflow(tokens, c.gpt.context, &tokens),
        "--batch ", c.batch, ", --accumulate ", c.trainer.accumulate, " and --context ", c.gpt.context,
        ": a step of so many tokens cannot be counted");
}

// The tokenizer that the weights to start from, or to go on with, were trained with: their ids mean its
// tokens.
std::unique_ptr<io::Tokenizer> known_tokenizer(const TrainCommand& c, bool goes_on) {
  if (goes_on) return saved_tokenizer(c.trainer.run_folder);
  if (c.init_from.empty() || !c.data.vocab.empty()) return nullptr;
  return train::under_option("--init-from", [&] { return tokenizer_beside(c.init_from); });
}

void start_from_weights(const TrainCommand& c, const LanguageModel& model, const Corpus& corpus) {
  train::under_option("--init-from", [&] { load_weights(model, c.model_options(), c.init_from); });
  if (corpus.tokenizer && c.data.vocab.empty() && !has_tokenizer_beside(c.init_from))
    train::warn(
        "warning: --init-from {}: no tokenizer beside these weights: their ids may be other characters than "
        "those "
        "of {}\n",
        printable(c.init_from), printable(c.data.data));
}

void print_header(const TrainCommand& c, const LanguageModel& model, const Corpus& corpus,
                  int64_t first_step) {
  train::report("{}\n", model.to_string());
  train::report("Data: {}: {} tokens to train on, {} held out\n", train::for_output(c.data.data),
                corpus.train->size(), corpus.validation->size());
  print_run(c, model.blocks(), model.device(),
            fmt::format("{} x {} tokens", c.batch * c.trainer.accumulate, model.context()), first_step);
}

/// What training takes at the least, by precision and what is kept beside 16-bit weights.
LeastBytes least_bytes(const TrainCommand& c) {
  const train::Precision precision = train::parse_precision(c.precision);
  LeastBytes bytes;
  if (train::is_pure(precision))
    bytes.parameter = 2 + (c.main_gradients == "on" ? 4 : 2) +
                      (c.moments == "bf16" ? 4
                       : c.moments == "u8" ? 2
                                           : 8) +
                      (c.master == "f32"     ? 4
                       : c.master == "split" ? 2
                                             : 0);
  if (precision != train::Precision::f32) bytes.logit = 2;
  return bytes;
}

// The text, and what only it tells of the options. They have its vocabulary from then on.
Corpus corpus_of(TrainCommand& c, bool goes_on, distributed::ProcessGroup& group) {
  Corpus corpus = load_corpus(c.data, known_tokenizer(c, goes_on));
  if (group.size() > 1)
    check_same_run(group, c, data_record(corpus), {"--data", "--val-data", "--vocab", "--merges"});
  if (c.trainer.resume) check_changes(c, corpus);
  if (corpus.tokenizer) prompt_ids(*corpus.tokenizer, c.generate.prompt);  // a bad one is told now
  check(c.data.vocab_size == 0 || c.data.vocab_size >= corpus.vocab_size, "--vocab-size ", c.data.vocab_size,
        ": the data has ", corpus.vocab_size, " tokens");
  c.gpt.vocab_size = corpus.vocab_size;
  return corpus;
}

// The model of a run and what trains it. The corpus must outlive it.
struct Training {
  Training(const TrainCommand& c, const Corpus& the_corpus, Device the_device, bool goes_on,
           distributed::ProcessGroup& group)
      : corpus(the_corpus),
        device(the_device),
        model(c.model_options(), device),
        parallel(module_at_the_start(c, goes_on), group, buckets_of(c)),
        optimizer(make_adamw(
            parallel, optim::decay_matrices(model.module(), c.trainer.schedule.lr, c.weight_decay), c)),
        crops(train::under_option("--context and --data", [&] {
          return io::RandomCrops(*corpus.train, c.gpt.context, uint64_t(c.seed));
        })) {
    set_sums(parallel, c);
    ema = make_averages(parallel, c.ema);
  }

  Tensor loss(int64_t step, int64_t first_row, int64_t rows) {
    io::TokenBatch batch = crops.batch(step, first_row, rows);
    return cross_entropy(model(batch.tokens.to(device)), batch.targets.to(device));
  }

  // As c says, but for its weights to start from, where it is imagined again.
  TrainedModel trained_model(const TrainCommand& c) {
    auto loss_of = [this](int64_t rows) {
      const Tensor tokens = zeros({rows, model.context()}, DType::i64, device);
      return cross_entropy(model(tokens), tokens);
    };
    auto imagine = [this, &c](distributed::ProcessGroup& group) -> ImaginedTraining {
      auto again = std::make_shared<Training>(c, corpus, Device::cpu(), /*goes_on=*/true, group);
      again->optimizer->allocate_state();
      if (again->ema) again->ema->follow_masters(*again->optimizer);  // as training begins
      return {again, again->trained_model(c)};
    };
    return {.model = model.module(),
            .optimizer = *optimizer,
            .set_recompute =
                [this](const RecomputeStrategy& strategy) { model.blocks().set_recompute(strategy); },
            .row = "sequence",
            .loss = loss_of,
            .blocks = &model.blocks(),
            .parallel = &parallel,
            .ema = ema.get(),
            .imagine = imagine};
  }

  const Corpus& corpus;
  const Device device;
  const LanguageModel model;
  distributed::DataParallel parallel;
  std::unique_ptr<optim::AdamW> optimizer;
  std::unique_ptr<optim::Ema> ema{};
  io::RandomCrops crops;

 private:
  // With the weights to start from, in the precision of the options.
  nn::Module& module_at_the_start(const TrainCommand& c, bool goes_on) {
    if (!c.init_from.empty() && !goes_on) start_from_weights(c, model, corpus);
    take_precision(model.module(), c);
    return model.module();
  }
};

train::Task task_of(Training& t, const TrainCommand& c) {
  train::Task task{.model = t.model.module(), .optimizer = *t.optimizer, .ema = t.ema.get()};
  task.description = describe(c.model_options());
  if (c.change) task.changeable = {"dropout"};
  task.begin = [&](int64_t first_step) {
    if (t.parallel.group().rank() == 0) keep_options(c, t.corpus, first_step);
    print_header(c, t.model, t.corpus, first_step);
  };
  task.units_per_step = c.batch * c.trainer.accumulate * c.gpt.context;
  task.loss = [&](int64_t step, int64_t micro) { return t.loss(step, micro * c.batch, c.batch); };
  task.validation_loss = [&](bool whole) {
    return evaluate(t.parallel, t.model, *t.corpus.validation,
                    {.batch = c.batch, .batches = whole ? 0 : c.eval_batches});
  };
  task.sample = [&] {
    GenerateOptions whole = c.generate;
    whole.ignore_eos = true;  // what a young model takes for an end says little
    return generate(t.model, t.corpus.tokenizer.get(), whole, 0);
  };
  return task;
}

int train_on(distributed::ProcessGroup& group, TrainCommand c, train::InterruptScope& interrupts) {
  check_numbers(c);
  Device device = apply_training_options(c);
  const train::PrecisionScope precision = precision_scope(c, device);
  std::string& folder = c.trainer.run_folder;
  std::optional<train::RunLock> lock = check_folder(c);
  bool goes_on = c.trainer.resume && train::has_checkpoint(folder);

  const Corpus corpus = corpus_of(c, goes_on, group);
  c.gpt.recompute = parse_strategy(c.recompute);
  check_fits(c.model_options(), c.batch_auto ? 1 : c.batch, c.gpt.context, device, least_bytes(c));
  manual_seed(uint64_t(c.seed));
  Training training(c, corpus, device, goes_on, group);
  const auto trained = [&] { return training.trained_model(c); };
  report_memory(c, device, trained(), group);
  plan_for_budget(c, trained(), group, [&](const recompute::ProfileOptions& options) {
    const Tensor tokens = training.crops.batch(0, 0, c.batch).tokens.to(device);
    return training.model.blocks().profile(tokens, options);
  });
  group.barrier();  // a signal finds all ranks before their first step, or none, but for a moment
  interrupts.defer();
  std::optional<train::NewRunFolder> new_folder;
  if (!c.trainer.resume && group.rank() == 0) folder = new_folder.emplace(folder, "gpt", tell).path();
  record_calls(group, folder, c);

  train::Task task = task_of(training, c);
  auto begin = std::chrono::steady_clock::now();
  const train::TrainingResult result = with_memory_advice(advice_case(c, device, group), trained, [&] {
    return train::train(task, c.trainer, training.parallel);
  });
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return finish(c, result, seconds, "reprise-gpt",
                fmt::format("validation loss {:.4f}", result.validation_loss));
}

}  // namespace

int run_train(const TrainCommand& command) {
  train::InterruptScope interrupts(train::InterruptScope::Begin::at_once);
  return on_ranks(command,
                  [&](distributed::ProcessGroup& group) { return train_on(group, command, interrupts); });
}

}  // namespace reprise::apps::gpt
