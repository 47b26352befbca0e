// The command line of `reprise-gpt`.
#include "reprise/apps/gpt/options.h"

#include <climits>

#include "reprise/apps/common/command_line.h"
#include "reprise/apps/common/config_file.h"
#include "reprise/apps/common/sizes.h"
#include "reprise/apps/common/validators.h"
#include "reprise/apps/gpt/resume.h"
#include "reprise/io/folder.h"

namespace reprise::apps::gpt {
namespace {

constexpr const char* device_help = "cpu, cuda, cuda:N or best: the GPU if there is one";
constexpr const char* attention_help =
    "Attention kernels on a GPU: reprise, sm90 (ours for Hopper) or cudnn;\n"
    "what the chosen ones do not take is left to reprise";

void add_data_options(CLI::App& app, DataOptions& o) {
  auto* group = app.add_option_group("Data");
  group
      ->add_option("--data", o.data,
                   "Text to learn from: a file, a folder, or - for standard input;\n"
                   "or tokens: .bin files of nanoGPT or llm.c, or a folder of them")
      ->check(not_empty());
  group->add_option("--val-data", o.val_data, "Held-out tokens, when --data is token files");
  group->add_option("--val-fraction", o.val_fraction, "Part of a text, at its end, that is held out")
      ->check(fraction());
  group->add_option("--vocab", o.vocab, "GPT-2 BPE: vocab.json (without it: one token a character)");
  group->add_option("--merges", o.merges, "GPT-2 BPE: merges.txt");
  group->add_option("--vocab-size", o.vocab_size, "Vocabulary of token files (0: from the data)")
      ->transform(whole_from(0));
}

void add_generate_options(CLI::App& app, GenerateOptions& o) {
  auto* group = app.add_option_group("Samples");
  group->add_option("--prompt", o.prompt, "Text to continue");
  group->add_option("--sample-tokens", o.tokens, "Tokens to generate")->transform(whole_from(1));
  group->add_option("--samples", o.samples, "How many samples")->transform(whole_from(1));
  group->add_option("--temperature", o.sampling.temperature, "0: always the most likely token")
      ->check(number_from_0());
  group->add_option("--top-k", o.sampling.top_k, "Choose among the k most likely tokens (0: all)")
      ->transform(whole_from(0));
  group
      ->add_option("--top-p", o.sampling.top_p,
                   "Choose among the likeliest tokens that hold this probability")
      ->check(above_0_to_1());
  group->add_option("--sample-seed", o.seed, "Seed of the samples")->transform(whole_from(0));
}

void add_model_options(CLI::App& app, nn::GptOptions& o) {
  auto* group = app.add_option_group("Model");
  group->add_option("--layers", o.layers, "Transformer blocks")->transform(whole_from(1));
  group->add_option("--heads", o.heads, "Attention heads a block")->transform(whole_from(1));
  group->add_option("--width", o.width, "Size of the residual stream")->transform(whole_from(1));
  group->add_option("--context", o.context, "Tokens the model sees at once")->transform(whole_from(1));
  group->add_option("--dropout", o.dropout, "Probability of dropout")->check(probability());
  group->add_flag("--bias,!--no-bias", o.bias, "Biases in linear layers and norms")->default_str("true");
}

void add_optimizer_options(CLI::App& app, TrainCommand& o) {
  auto* group = app.add_option_group("Optimization");
  auto& schedule = o.trainer.schedule;
  group->add_option("--steps", schedule.steps, "Updates in all")->transform(whole_from(1));
  group->add_option("--batch", o.batch, "Sequences a micro-batch")->transform(whole_from(1));
  group->add_option("--accumulate", o.trainer.accumulate, "Micro-batches an update")
      ->transform(whole_from(1));
  group->add_option("--lr", schedule.lr, "Peak learning rate")->check(number_from_0());
  group->add_option("--min-lr", schedule.min_lr, "Learning rate at the end; constant has none")
      ->check(number_from_0());
  group->add_option("--warmup", schedule.warmup, "Steps of linear warm-up")->transform(whole_from(0));
  group->add_option("--decay", o.decay, "After the warm-up: constant, linear, cosine or wsd")
      ->check(parsed_by(optim::parse_decay));
  group->add_option("--beta1", o.beta1, "AdamW's first decay")->check(probability());
  group->add_option("--beta2", o.beta2, "AdamW's second decay")->check(probability());
  group->add_option("--weight-decay", o.weight_decay, "Of matrices; vectors do not decay")
      ->check(number_from_0());
  group->add_option("--clip", o.trainer.clip, "Largest norm of the gradient (0: no limit)")
      ->check(number_from_0());
  group->add_option("--ema", o.ema, "Decay of an average of the weights to evaluate with (0: none)")
      ->check(probability());
}

void add_run_options(CLI::App& app, TrainCommand& o) {
  auto* group = app.add_option_group("Run");
  group
      ->add_option("--out", o.trainer.run_folder,
                   "Run folder (default: the first free of runs/gpt, runs/gpt-2, ...)")
      ->check(not_empty());
  group->add_flag("--resume", o.trainer.resume,
                  "Go on from the newest checkpoint in --out, with the options that the run has\n"
                  "(config.toml); what changes no bit of the steps done may be given anew");
  group->add_flag("--change", o.change, "With --resume: go on with other options than the run has");
  group
      ->add_option("--init-from", o.init_from,
                   "Start from the weights of a run, a checkpoint or a .safetensors file")
      ->check(not_empty());
  group->add_option("--eval-every", o.trainer.eval_every, "Steps between evaluations (0: at the end)")
      ->transform(whole_from(0));
  group
      ->add_option("--eval-batches", o.eval_batches,
                   "Batches an evaluation sees before the end (0: the whole split)")
      ->transform(whole_from(0));
  group->add_option("--sample-every", o.trainer.sample_every, "Steps between samples (0: at the end)")
      ->transform(whole_from(0));
  group->add_option("--save-every", o.trainer.save_every, "Steps between checkpoints (0: at the end)")
      ->transform(whole_from(0));
  group
      ->add_option("--stop-after", o.trainer.stop_after,
                   "Save and stop after this many steps (0: go to the end)")
      ->transform(whole_from(0));
  group->add_option("--keep", o.trainer.keep, "Checkpoints to keep")->transform(whole_from(1, INT_MAX));
  group->add_option("--seed", o.seed, "Seed of weights, batches and dropout")->transform(whole_from(0));
  group->add_option("--threads", o.threads, "Threads (0: one a CPU); results do not depend on it")
      ->transform(whole_from(0, INT_MAX));
  group->add_option("--device", o.device, device_help)->check(parsed_by(Device::parse));
  group->add_option("--attention", o.attention, attention_help);
  group
      ->add_option("--recompute", o.recompute,
                   "Play blocks again in backward instead of keeping what they compute, to the\n"
                   "same bits: none, full (all blocks), selective (only what is cheap of them),\n"
                   "selective:save_attention or :save_matmuls (all but these), every:N (each\n"
                   "N-th), layers:2,5,8, segments:N (N groups, the last kept), sqrt (of the\n"
                   "blocks as N), offload (full; inputs wait off the device), with a policy as\n"
                   "offload:recompute_cheap, or auto (the fastest plan for --memory-budget, which\n"
                   "is measured first)")
      ->check(parsed_by(parse_strategy));
  group
      ->add_option("--memory-budget", o.memory_budget,
                   "With --recompute auto: the most that a training step may take, such as 2GiB,\n"
                   "with weights, gradients and optimizer state; below the minimum it is refused")
      ->check(parsed_by(parse_bytes));
  group->add_option("--memory-limit", o.memory_limit, "Largest memory for tensors, such as 2GiB")
      ->check(parsed_by(parse_bytes));
  group->add_flag("--anomaly", o.trainer.anomaly, "Stop at the first NaN or inf and name the operation");
}

void add_train(CLI::App& app, TrainCommand& o) {
  auto* train = app.add_subcommand("train", "Train a GPT");
  add_data_options(*train, o.data);
  add_model_options(*train, o.model);
  add_optimizer_options(*train, o);
  add_run_options(*train, o);
  add_generate_options(*train, o.generate);
  add_config_option(*train);
  train->option_defaults()->always_capture_default();
}

void add_sample(CLI::App& app, SampleCommand& o) {
  auto* sample = app.add_subcommand("sample", "Write text with a trained model");
  sample->add_option("--run", o.run, "Run folder or checkpoint (default: the newest in runs/)")
      ->check(not_empty());
  sample->add_option("--device", o.device, device_help)->check(parsed_by(Device::parse));
  sample->add_option("--attention", o.attention, attention_help);
  add_generate_options(*sample, o.generate);
}

void add_eval(CLI::App& app, EvalCommand& o) {
  auto* eval = app.add_subcommand("eval", "Loss of a trained model over a whole held-out split");
  eval->add_option("--run", o.run, "Run folder or checkpoint (default: the newest in runs/)")
      ->check(not_empty());
  eval->add_option("--batch", o.batch, "Sequences at once")->transform(whole_from(1));
  eval->add_option("--device", o.device, device_help)->check(parsed_by(Device::parse));
  eval->add_option("--attention", o.attention, attention_help);
  add_data_options(*eval, o.data);
}

// What works on two CPU cores in minutes: nanoGPT's small recipe, a little wider.
TrainCommand default_train() {
  TrainCommand o;
  o.model = {.vocab_size = 0, .context = 64, .layers = 4, .heads = 4, .width = 128};
  o.trainer.schedule = {.lr = 1e-3, .min_lr = 1e-4, .warmup = 100, .steps = 4000};
  return o;
}

// What a resumed run has and the command line leaves open.
void resume_options(CLI::App& train, TrainCommand& o) {
  std::string& folder = o.trainer.run_folder;
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  check(o.trainer.resume || !o.change, "--change is for --resume");
  if (!o.trainer.resume) return;
  check(!folder.empty(), "--resume: say which run goes on by --out");
  std::string config = folder + "/config.toml";
  if (io::exists(config)) o.changes = take_run_config(train, config);
  drop_free_changes(o.changes);
}

}  // namespace

Command parse_command_line(int argc, char** argv) {
  Command command;
  command.train = default_train();
  CLI::App app("reprise-gpt: train a GPT on your text, sample from it, evaluate it", "reprise-gpt");
  app.option_defaults()->always_capture_default();
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  add_train(app, command.train);
  add_sample(app, command.sample);
  add_eval(app, command.eval);
  parse_arguments(app, argc, argv);
  if (app.got_subcommand("train")) {
    command.kind = Command::Kind::train;
    command.places = apply_config(*app.get_subcommand("train"));
    resume_options(*app.get_subcommand("train"), command.train);
    command.train.resolved = resolved_config(*app.get_subcommand("train"));
  } else {
    command.kind = app.got_subcommand("sample") ? Command::Kind::sample : Command::Kind::eval;
  }
  return command;
}

}  // namespace reprise::apps::gpt
