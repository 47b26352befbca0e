// reprise-gpt train.
#include <chrono>
#include <memory>
#include <optional>
#include <set>

#include "reprise/apps/common/sizes.h"
#include "reprise/apps/gpt/corpus.h"
#include "reprise/apps/gpt/generate.h"
#include "reprise/apps/gpt/model.h"
#include "reprise/apps/gpt/options.h"
#include "reprise/apps/gpt/resume.h"
#include "reprise/autograd/ops.h"
#include "reprise/core/parallel.h"
#include "reprise/core/quote.h"
#include "reprise/io/text/token_batches.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/train/checkpoint.h"
#include "reprise/train/interrupt.h"
#include "reprise/train/model_size.h"
#include "reprise/train/option_error.h"
#include "reprise/train/output.h"
#include "reprise/train/progress.h"
#include "reprise/train/run_folder.h"

namespace reprise::apps::gpt {
namespace {

void tell(const std::string& text) { train::warn("warning: {}\n", text); }

void check_numbers(const TrainCommand& c) {
  check(c.model.width % c.model.heads == 0, "--width ", c.model.width, " is not a multiple of --heads ",
        c.model.heads);
  check(c.trainer.schedule.min_lr <= c.trainer.schedule.lr, "--min-lr ", c.trainer.schedule.min_lr,
        " is above --lr ", c.trainer.schedule.lr);
  check_sampling(c.generate.sampling);
  int64_t tokens = 0;
  check(!__builtin_mul_overflow(c.batch, c.trainer.accumulate, &tokens) &&
            !__builtin_mul_overflow(tokens, c.model.context, &tokens),
        "--batch ", c.batch, ", --accumulate ", c.trainer.accumulate, " and --context ", c.model.context,
        ": a step of so many tokens cannot be counted");
}

// What lies there fits a new run, or one that goes on. The lock of the latter, before anything of it is read.
std::optional<train::RunLock> check_folder(const TrainCommand& c) {
  const std::string& folder = c.trainer.run_folder;
  if (!c.trainer.resume) {
    if (!folder.empty()) train::check_free(folder);
    return {};
  }
  train::FolderState state = train::state_of(folder);
  check(state == train::FolderState::saved || state == train::FolderState::begun,
        "--resume: no checkpoint in ", folder, ", and no config.toml of a run that was only begun");
  return train::RunLock(folder, tell);
}

// The strategy of the options. Error if it needs a memory budget that is not there, or the other way round.
RecomputeStrategy recompute_strategy(const TrainCommand& c) {
  RecomputeStrategy strategy = parse_strategy(c.recompute);
  bool automatic = strategy.kind == RecomputeStrategy::Kind::automatic;
  check(!automatic || !c.memory_budget.empty(), "--recompute auto needs a --memory-budget, such as 2GiB");
  check(automatic || c.memory_budget.empty(), "--memory-budget is for --recompute auto, not for ",
        c.recompute);
  if (automatic) strategy.memory_budget = parse_bytes(c.memory_budget);
  return strategy;
}

// The tokenizer that the weights to start from, or to go on with, were trained with: their ids mean its
// tokens.
std::unique_ptr<io::Tokenizer> known_tokenizer(const TrainCommand& c, bool goes_on) {
  if (goes_on) return saved_tokenizer(c.trainer.run_folder);
  if (c.init_from.empty() || !c.data.vocab.empty()) return nullptr;
  return train::under_option("--init-from", [&] { return tokenizer_beside(c.init_from); });
}

void start_from_weights(const TrainCommand& c, nn::Gpt& model, const Corpus& corpus) {
  train::under_option("--init-from", [&] { load_weights(model, c.init_from); });
  if (corpus.tokenizer && c.data.vocab.empty() && !tokenizer_beside(c.init_from))
    train::warn(
        "warning: --init-from {}: no tokenizer beside these weights: their ids may be other characters than "
        "those "
        "of {}\n",
        printable(c.init_from), printable(c.data.data));
}

// Plans the blocks for the memory budget, if there is one, once all that a step holds for good is there.
void plan_for_budget(const TrainCommand& c, nn::Gpt& model, optim::AdamW& optimizer,
                     const io::RandomCrops& crops) {
  size_t budget = model.h.strategy().memory_budget;
  if (budget == 0) return;
  optimizer.allocate_state();
  Tensor tokens = crops.batch(0, 0, c.batch).tokens.to(model.wte.weight.device());
  bool accumulates = c.trainer.accumulate > 1;
  recompute::Planned planned = model.h.plan(
      tokens, budget,
      {.gradients = accumulates ? recompute::GradientMemory::held : recompute::GradientMemory::fresh});
  train::report("Memory: a step is predicted to take {:.1f} MiB of the {:.1f} MiB it may take\n",
                double(planned.cost.peak_bytes) / (1 << 20), double(budget) / (1 << 20));
}

void print_header(const TrainCommand& c, const nn::Gpt& model, const Corpus& corpus,
                  const std::string& folder, int64_t first_step) {
  const nn::GptOptions& o = model.options();
  train::report("GPT: {} layers, {} heads, width {}, context {}, vocabulary {}: {:.2f} M parameters\n",
                o.layers, o.heads, o.width, o.context, o.vocab_size, double(model.parameter_count()) / 1e6);
  train::report("Data: {}: {} tokens to train on, {} held out\n", train::for_output(c.data.data),
                corpus.train->size(), corpus.validation->size());
  if (model.h.strategy() != RecomputeStrategy())
    train::report("Recompute: {}: blocks {} (in brackets: played again in backward)\n",
                  to_string(model.h.strategy()), to_string(model.h.recompute_plan()));
  train::report("Run: {} steps of {} x {} tokens on {} ({} threads), into {}\n", c.trainer.schedule.steps,
                c.batch * c.trainer.accumulate, o.context, to_string(model.wte.weight.device()),
                num_threads(), folder);
  if (!c.changes.empty()) train::report("Changed: {}\n", train::for_output(to_string(c.changes)));
  if (c.trainer.resume && first_step > 0) train::report("It goes on after step {}\n", first_step);
  if (c.trainer.resume && first_step == 0)
    train::report("It has no checkpoint yet, and starts from its beginning\n");
  train::report("\n");
}

int finish(const TrainCommand& c, const train::TrainingResult& result, double seconds) {
  const std::string& folder = c.trainer.run_folder;
  int64_t steps = c.trainer.schedule.steps;
  if (result.updates == 0) {
    train::report("Stopped before the first step: there is nothing to save\n");
  } else if (result.step < steps) {
    train::report("Stopped at step {} of {}; saved. Go on with: reprise-gpt train --out {} --resume\n",
                  result.step, steps, folder);
  } else if (result.interrupted) {
    train::report("Stopped after the last step, {}; saved. Evaluate it with: reprise-gpt eval --run {}\n",
                  steps, folder);
  } else {
    train::report("Done: step {}, validation loss {:.4f}, {}. Loss curve: {}/loss.svg\n", result.step,
                  result.validation_loss, train::format_duration(seconds), folder);
  }
  return result.interrupted ? train::interrupted_exit_code : 0;
}

}  // namespace

int run_train(const TrainCommand& given) {
  train::InterruptScope interrupts(train::InterruptScope::Begin::at_once);
  TrainCommand c = given;
  check_numbers(c);
  if (c.threads > 0) train::under_option("--threads", [&] { set_num_threads(c.threads); });
  Device device = Device::parse(c.device);
  use_attention(c.attention, device);
  if (!c.memory_limit.empty()) allocator(device).set_limit(parse_bytes(c.memory_limit));
  c.trainer.schedule.decay = optim::parse_decay(c.decay);
  if (c.trainer.schedule.decay == optim::Decay::constant) c.trainer.schedule.min_lr = 0;
  std::string& folder = c.trainer.run_folder;
  std::optional<train::RunLock> lock = check_folder(c);
  bool goes_on = c.trainer.resume && train::has_checkpoint(folder);

  Corpus corpus = load_corpus(c.data, known_tokenizer(c, goes_on));
  if (c.trainer.resume) check_changes(c, corpus);
  if (corpus.tokenizer) prompt_ids(*corpus.tokenizer, c.generate.prompt);  // a bad one is told now
  c.model.vocab_size = corpus.vocab_size;
  c.model.recompute = recompute_strategy(c);
  train::check_fits(c.model, c.batch, c.model.context, device);
  manual_seed(uint64_t(c.seed));
  nn::Gpt model(c.model, device);
  if (!c.init_from.empty() && !goes_on) start_from_weights(c, model, corpus);
  optim::AdamW optimizer(optim::decay_matrices(model, c.trainer.schedule.lr, c.weight_decay),
                         {.beta1 = c.beta1, .beta2 = c.beta2});
  std::unique_ptr<optim::Ema> ema = c.ema > 0 ? std::make_unique<optim::Ema>(model, c.ema) : nullptr;
  io::RandomCrops crops = train::under_option("--context and --data", [&] {
    return io::RandomCrops(*corpus.train, c.model.context, uint64_t(c.seed));
  });
  plan_for_budget(c, model, optimizer, crops);
  interrupts.defer();
  std::optional<train::NewRunFolder> new_folder;
  if (!c.trainer.resume) folder = new_folder.emplace(folder, "gpt", tell).path();

  train::Task task{.model = model,
                   .optimizer = optimizer,
                   .ema = ema.get(),
                   .description = describe(c.model),
                   .changeable = c.change ? std::set<std::string>{"dropout"} : std::set<std::string>{},
                   .begin =
                       [&](int64_t first_step) {
                         keep_options(c, corpus, first_step);
                         print_header(c, model, corpus, folder, first_step);
                       },
                   .units_per_step = c.batch * c.trainer.accumulate * c.model.context,
                   .loss =
                       [&](int64_t step, int64_t micro) {
                         io::TokenBatch batch = crops.batch(step, micro * c.batch, c.batch);
                         return cross_entropy(model(batch.tokens.to(device)), batch.targets.to(device));
                       },
                   .validation_loss =
                       [&](bool whole) {
                         return evaluate(model, *corpus.validation, c.batch, whole ? 0 : c.eval_batches);
                       },
                   .sample = [&] { return generate(model, corpus.tokenizer.get(), c.generate, 0); }};
  auto begin = std::chrono::steady_clock::now();
  train::TrainingResult result = train::train(task, c.trainer);
  return finish(c, result, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}

}  // namespace reprise::apps::gpt
