// The command line of `reprise-gpt`.
#include "reprise/apps/gpt/options.h"

#include <algorithm>

#include "reprise/apps/common/command_line.h"
#include "reprise/apps/common/config_file.h"
#include "reprise/apps/common/validators.h"
#include "reprise/apps/gpt/model.h"
#include "reprise/train/option_error.h"

namespace reprise::apps::gpt {
namespace {

// What samples look like changes no bit of a step.
const std::set<std::string> free_options = {"--prompt",      "--sample-tokens", "--samples", "--sample-seed",
                                            "--temperature", "--top-k",         "--top-p"};

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
  group
      ->add_option("--min-p", o.sampling.min_p,
                   "Choose among those with this part of the largest probability (0: all)")
      ->check(probability());
  group
      ->add_option("--repetition-penalty", o.sampling.repetition_penalty,
                   "Above 1: tokens come again less often")
      ->check(number_above_0());
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

void add_train(CLI::App& app, TrainCommand& o) {
  auto* train = app.add_subcommand("train", "Train a GPT");
  add_data_options(*train, o.data);
  add_model_options(*train, o.model);
  add_optimizer_options(*train, o, "Sequences");
  add_run_options(*train, o, "gpt");
  add_generate_options(*train, o.generate);
  add_config_option(*train);
  train->option_defaults()->always_capture_default();
}

void add_sample(CLI::App& app, SampleCommand& o) {
  auto* sample = app.add_subcommand("sample", "Write text with a trained model");
  add_read_run_option(*sample, o.run);
  add_device_options(*sample, o);
  add_generate_options(*sample, o.generate);
}

void add_eval(CLI::App& app, EvalCommand& o) {
  auto* eval = app.add_subcommand("eval", "Loss of a trained model over a whole held-out split");
  add_read_run_option(*eval, o.run);
  eval->add_option("--batch", o.batch, "Sequences at once")->transform(whole_from(1));
  add_device_options(*eval, o);
  add_data_options(*eval, o.data);
}

void add_flight(CLI::App& app, std::string& run) {
  auto* flight =
      app.add_subcommand("flight", "What the calls of a run's ranks differ in, where one has failed");
  flight->add_option("RUN", run, "Run folder, of any program; its ranks left their calls in flight/")
      ->required()
      ->check(not_empty());
}

// What works on two CPU cores in minutes: nanoGPT's small recipe, a little wider.
TrainCommand default_train() {
  TrainCommand o;
  o.model = {.vocab_size = 0, .context = 64, .layers = 4, .heads = 4, .width = 128};
  o.trainer.schedule = {.lr = 1e-3, .min_lr = 1e-4, .warmup = 100, .steps = 4000};
  return o;
}

// What nothing else says is as the weights to start from have it.
void take_sizes_of_weights(CLI::App& train, const TrainCommand& c) {
  const std::string& from = c.init_from;
  const char* sizes[] = {"--layers", "--heads", "--width", "--context", "--bias"};
  auto is_given = [&](const char* name) { return train.get_option(name)->count() > 0; };
  if (from.empty() || c.trainer.resume || std::all_of(std::begin(sizes), std::end(sizes), is_given)) return;
  const int64_t heads = is_given("--heads") ? c.model.heads : 0;
  const nn::GptOptions o =
      train::under_option("--init-from", [&] { return read_gpt_weights(from, heads).options; });
  take_defaults(train,
                {{"layers", std::to_string(o.layers)},
                 {"heads", std::to_string(o.heads)},
                 {"width", std::to_string(o.width)},
                 {"context", std::to_string(o.context)},
                 {"bias", o.bias ? "true" : "false"}},
                "--init-from " + from);
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
  add_flight(app, command.flown_run);
  parse_arguments(app, argc, argv);
  if (app.got_subcommand("train")) {
    command.kind = Command::Kind::train;
    command.places = apply_config(*app.get_subcommand("train"));
    take_run_options(*app.get_subcommand("train"), command.train, free_options);
    take_sizes_of_weights(*app.get_subcommand("train"), command.train);
    command.train.resolved = resolved_config(*app.get_subcommand("train"));
  } else {
    for (auto [name, kind] : {std::pair{"sample", Command::Kind::sample},
                              {"eval", Command::Kind::eval},
                              {"flight", Command::Kind::flight}})
      if (app.got_subcommand(name)) command.kind = kind;
  }
  return command;
}

}  // namespace reprise::apps::gpt
