// The options of `reprise-gpt` and its subcommands.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "reprise/apps/common/models/language_model.h"
#include "reprise/apps/common/training_options.h"

namespace reprise::apps::gpt {

struct DataOptions {
  std::string data;           ///< a text file, a folder of texts, "-", or token files (.bin)
  std::string val_data;       ///< with token files: the held-out split
  std::string vocab, merges;  ///< GPT-2 BPE; empty: characters
  /// Rows of the table of tokens, where they are more than the tokenizer's; 0: those, or of token files one more than the
  /// largest id in the training data.
  int64_t vocab_size = 0;
  double val_fraction = 0.1;  ///< of the characters of a text, at its end
};

struct GenerateOptions {
  std::string prompt;
  int64_t tokens = 400;
  int64_t samples = 1;
  SamplingOptions sampling;
  int64_t seed = 1337;
  std::vector<std::string> stop;  ///< texts that a sample ends before
  bool ignore_eos = false;        ///< goes on past the tokens that end a text
};

struct TrainCommand : TrainingOptions {
  DataOptions data;
  std::string model = "gpt";  ///< or "llama"
  nn::GptOptions gpt;         ///< with the sizes that both kinds have
  nn::LlamaOptions llama;     ///< what it alone has, but for
  std::string rope_scaling = "none";
  GenerateOptions generate;

  /// Of the kind that `model` names.
  LanguageModelOptions model_options() const;
};

struct SampleCommand : DeviceOptions {
  std::string run;  ///< a run folder or a checkpoint; empty: the newest run
  GenerateOptions generate;
};

struct EvalCommand : DeviceOptions {
  std::string run;
  DataOptions data;  ///< empty: what the run trained on
  int64_t batch = 12;
  int64_t context = 0;  ///< tokens the model sees at once; 0: as many as it can
};

struct ConsolidateCommand {
  std::string run, out;
};

struct FlightCommand {
  std::string run, trace;
};

struct Command {
  enum class Kind : uint8_t { train, sample, eval, flight, consolidate } kind = Kind::train;
  TrainCommand train;
  SampleCommand sample;
  EvalCommand eval;
  ConsolidateCommand consolidate;
  FlightCommand flight;
  std::map<std::string, std::string> places;  ///< of the options that are from --config
};

/// Parses the command line. Prints help and exits the process with 0 where asked; throws Error on bad
/// options.
Command parse_command_line(int argc, char** argv);

int run_train(const TrainCommand& command);
int run_sample(const SampleCommand& command);
int run_eval(const EvalCommand& command);
int run_flight(const FlightCommand& command);

}  // namespace reprise::apps::gpt
