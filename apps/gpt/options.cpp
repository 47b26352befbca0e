// The command line of `reprise-gpt`.
#include "reprise/apps/gpt/options.h"

#include <algorithm>

#include "reprise/apps/common/command_line.h"
#include "reprise/apps/common/config_file.h"
#include "reprise/apps/common/models/description.h"
#include "reprise/apps/common/ranks.h"
#include "reprise/apps/common/validators.h"
#include "reprise/apps/gpt/corpus.h"
#include "reprise/apps/gpt/model.h"
#include "reprise/core/quote.h"
#include "reprise/train/option_error.h"

namespace reprise::apps::gpt {
namespace {

// What samples look like changes no bit of a step.
const std::set<std::string> free_options = {"--prompt",      "--sample-tokens", "--samples",
                                            "--sample-seed", "--temperature",   "--top-k",
                                            "--top-p",       "--min-p",         "--repetition-penalty"};

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
  group
      ->add_option("--vocab-size", o.vocab_size,
                   "Rows of the table of tokens, if more than the tokenizer has, and of token files\n(0: "
                   "from the data)")
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

// The options that one kind of model alone has are a group of this name.
constexpr const char* gpt_group = "GPT";
constexpr const char* llama_group = "Llama";

void add_model_options(CLI::App& app, TrainCommand& c) {
  nn::GptOptions& o = c.gpt;
  auto* any = app.add_option_group("Model");
  any->add_option("--model", c.model,
                  "gpt (GPT-2: learned positions, LayerNorm, GELU) or llama (rotary positions,\n"
                  "RMSNorm, SwiGLU)")
      ->check(CLI::IsMember({"gpt", "llama"}));
  any->add_option("--layers", o.layers, "Transformer blocks")->transform(whole_from(1));
  any->add_option("--heads", o.heads, "Attention heads a block")->transform(whole_from(1));
  any->add_option("--width", o.width, "Size of the residual stream")->transform(whole_from(1));
  any->add_option("--context", o.context, "Tokens the model sees at once")->transform(whole_from(1));
  auto* gpt = app.add_option_group(gpt_group);
  gpt->add_option("--dropout", o.dropout, "Probability of dropout")->check(probability());
  gpt->add_flag("--bias,!--no-bias", o.bias, "Biases in linear layers and norms")->default_str("true");
  nn::LlamaOptions& l = c.llama;
  auto* llama = app.add_option_group(llama_group);
  llama->add_option("--kv-heads", l.kv_heads, "Heads of keys and values, which others share (0: --heads)")
      ->transform(whole_from(0));
  llama->add_option("--hidden", l.hidden, "Width inside SwiGLU (0: 8/3 of --width)")
      ->transform(whole_from(0));
  llama->add_option("--head-dim", l.head_dim, "Channels of a head, an even number (0: --width / --heads)")
      ->transform(whole_from(0));
  llama
      ->add_option(
          "--window", l.window,
          "Tokens that a token sees, itself among them, in all blocks, as Mistral (0: all before it)")
      ->transform(whole_from(0));
  llama
      ->add_option("--rope-theta", l.rope_theta, "Of rotary positions: the slowest turn is 1/theta per token")
      ->check(number_above_0());
  llama
      ->add_option(
          "--rope-scaling", c.rope_scaling,
          "Of turns, for a long context: none, linear:FACTOR, llama3:FACTOR:LOW:HIGH:CONTEXT or\n"
          "yarn:FACTOR:FAST:SLOW:CONTEXT[:ATTENTION[:TRUNCATE]], as config.json's rope_scaling has them")
      ->check(not_empty());
  llama->add_option("--norm-eps", l.norm_eps, "Added to mean squares in RMSNorm")->check(number_above_0());
  llama->add_flag("--tied,!--no-tied", l.tied, "The head is the table of tokens")->default_str("false");
  llama->add_flag("--qkv-bias,!--no-qkv-bias", l.qkv_bias, "Biases of queries, keys and values (Qwen 2)")
      ->default_str("false");
  llama->add_flag("--qk-norm,!--no-qk-norm", l.qk_norm, "RMSNorm of each head of queries and keys (Qwen 3)")
      ->default_str("false");
}

void add_train(CLI::App& app, TrainCommand& o) {
  auto* train = app.add_subcommand("train", "Train a GPT or a Llama");
  add_data_options(*train, o.data);
  add_model_options(*train, o);
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
  auto* end = sample->add_option_group("End");
  end->add_option("--stop", o.generate.stop, "End a sample before this text; may be given several times")
      ->type_size(1)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(not_empty())
      ->default_str("");
  end->add_flag("--ignore-eos", o.generate.ignore_eos,
                "Go on past the tokens that end a text, where a sample ends otherwise:\n"
                "the tokenizer's, and those that the weights' generation_config.json or config.json names");
}

void add_eval(CLI::App& app, EvalCommand& o) {
  auto* eval = app.add_subcommand("eval", "Loss of a trained model over a whole held-out split");
  add_read_run_option(*eval, o.run);
  eval->add_option("--batch", o.batch, "Sequences at once")->transform(whole_from(1));
  eval->add_option("--context", o.context, "Tokens the model sees at once (0: as many as it can)")
      ->transform(whole_from(0));
  add_device_options(*eval, o);
  add_data_options(*eval, o.data);
}

void add_flight(CLI::App& app, FlightCommand& o) {
  auto* flight =
      app.add_subcommand("flight", "What the calls of a run's ranks differ in, where one has failed");
  flight->add_option("RUN", o.run, "Run folder, of any program; its ranks left their calls in flight/")
      ->required()
      ->check(not_empty());
  flight->add_option("--trace", o.trace, "Also write when each rank made its calls, for ui.perfetto.dev");
}

void add_consolidate(CLI::App& app, ConsolidateCommand& o) {
  auto* consolidate = app.add_subcommand(
      "consolidate", "One file of the optimizer's state from those of several ranks (--zero 1 and above)");
  consolidate->add_option("RUN", o.run, "Run folder, of any program, or one of its checkpoints")
      ->required()
      ->check(not_empty());
  consolidate->add_option("--out", o.out, "The folder to write the checkpoint into, as one process writes it")
      ->required()
      ->check(not_empty());
}

// What works on two CPU cores in minutes: nanoGPT's small recipe, a little wider.
TrainCommand default_train() {
  TrainCommand o;
  o.gpt = {.vocab_size = 0, .context = 64, .layers = 4, .heads = 4, .width = 128};
  o.trainer.schedule = {.lr = 1e-3, .min_lr = 1e-4, .warmup = 100, .steps = 4000};
  return o;
}

std::map<std::string, std::string> own_sizes(const nn::GptOptions& o) {
  return {{"model", "gpt"}, {"bias", o.bias ? "true" : "false"}};
}

std::map<std::string, std::string> own_sizes(const nn::LlamaOptions& o) {
  return {{"model", "llama"},
          {"kv-heads", std::to_string(o.kv_heads)},
          {"hidden", std::to_string(o.hidden)},
          {"head-dim", std::to_string(o.head_dim)},
          {"window", std::to_string(o.window)},
          {"rope-theta", shortest(o.rope_theta)},
          {"rope-scaling", to_string(o.rope_scaling)},
          {"norm-eps", shortest(o.norm_eps)},
          {"tied", o.tied ? "true" : "false"},
          {"qkv-bias", o.qkv_bias ? "true" : "false"},
          {"qk-norm", o.qk_norm ? "true" : "false"}};
}

// What nothing else says is as the weights to start from have it.
void take_sizes_of_weights(CLI::App& train, const TrainCommand& c) {
  const std::string& from = c.init_from;
  const char* sizes[] = {"--model", "--layers", "--heads", "--width", "--context", "--bias", "--vocab-size"};
  auto is_given = [&](const char* name) { return train.get_option(name)->count() > 0; };
  if (from.empty() || c.trainer.resume || std::all_of(std::begin(sizes), std::end(sizes), is_given)) return;
  const int64_t heads = is_given("--heads") ? c.gpt.heads : 0;
  const LanguageModelOptions options =
      train::under_option("--init-from", [&] { return read_language_weights(from, heads).options; });
  check(!is_given("--model") || options.index() == c.model_options().index(), "--model ", c.model,
        ": the weights of --init-from ", printable(from), " are of a ", kind_of(options));
  const bool has_tokens = is_token_data(c.data.data) || !c.data.vocab.empty() || has_tokenizer_beside(from);
  const std::map<std::string, std::string> values = std::visit(
      [&](const auto& o) {
        std::map<std::string, std::string> own = own_sizes(o);
        own.insert({{"layers", std::to_string(o.layers)},
                    {"heads", std::to_string(o.heads)},
                    {"width", std::to_string(o.width)},
                    {"context", std::to_string(o.context)}});
        if (has_tokens) own["vocab-size"] = std::to_string(o.vocab_size);
        return own;
      },
      options);
  take_defaults(train, values, "--init-from " + from);
}

// Takes away the options that the model of --model has not: no config.toml keeps them. Error naming those that were given.
void keep_options_of_model(CLI::App& train, const TrainCommand& c,
                           const std::map<std::string, std::string>& places) {
  CLI::App* other = train.get_option_group(c.model == "gpt" ? llama_group : gpt_group);
  const std::string given = given_in(*other);
  check(given.empty(), with_places(given + ": --model " + c.model + " has no such option", places));
  train.remove_subcommand(other);
}

// Told before any rank waits for another one.
void check_data_of_ranks(const TrainCommand& c, const std::map<std::string, std::string>& places) {
  const int64_t ranks = std::max<int64_t>(c.ranks, rank_count());
  check(c.data.data != "-" || ranks <= 1,
        with_places(detail::join("--data -: of ", ranks, " ranks each reads the data itself; give a file"),
                    places));
}

}  // namespace

LanguageModelOptions TrainCommand::model_options() const {
  if (model == "gpt") return gpt;
  nn::LlamaOptions o = llama;
  o.vocab_size = gpt.vocab_size;
  o.context = gpt.context;
  o.layers = gpt.layers;
  o.heads = gpt.heads;
  o.width = gpt.width;
  o.recompute = gpt.recompute;
  o.rope_scaling = train::under_option("--rope-scaling", [&] {
    const nn::RopeScaling scaling = nn::parse_rope_scaling(rope_scaling);
    nn::check_rope_scaling("Llama", scaling);
    return scaling;
  });
  return o;
}

Command parse_command_line(int argc, char** argv) {
  Command command;
  command.train = default_train();
  CLI::App app("reprise-gpt: train a GPT or a Llama on your text, sample from it, evaluate it",
               "reprise-gpt");
  app.option_defaults()->always_capture_default();
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  add_train(app, command.train);
  add_sample(app, command.sample);
  add_eval(app, command.eval);
  add_flight(app, command.flight);
  add_consolidate(app, command.consolidate);
  parse_arguments(app, argc, argv);
  if (app.got_subcommand("train")) {
    command.kind = Command::Kind::train;
    command.places = apply_config(*app.get_subcommand("train"));
    take_run_options(*app.get_subcommand("train"), command.train, free_options);
    check_data_of_ranks(command.train, command.places);
    take_sizes_of_weights(*app.get_subcommand("train"), command.train);
    keep_options_of_model(*app.get_subcommand("train"), command.train, command.places);
    command.train.resolved = resolved_config(*app.get_subcommand("train"));
  } else {
    for (auto [name, kind] : {std::pair{"sample", Command::Kind::sample},
                              {"eval", Command::Kind::eval},
                              {"flight", Command::Kind::flight},
                              {"consolidate", Command::Kind::consolidate}})
      if (app.got_subcommand(name)) command.kind = kind;
  }
  return command;
}

}  // namespace reprise::apps::gpt
