// The options of `reprise-jepa` and its subcommands.
#pragma once

#include <map>
#include <string>

#include "reprise/apps/common/image_run.h"
#include "reprise/nn/models/jepa.h"
#include "reprise/nn/models/lejepa.h"

namespace reprise::apps::jepa {

/// What --loss may be: I-JEPA's (Assran et al. 2023), or LeJEPA (Balestriero and LeCun 2025).
inline constexpr const char* ijepa_loss = "smooth_l1";
inline constexpr const char* lejepa_loss = "lejepa";

struct TrainCommand : ImageTrainingOptions {
  std::string loss = ijepa_loss;
  nn::JepaOptions model;             ///< its encoder is LeJEPA's too
  std::string preset;                ///< "small": width, layers and heads of the encoder
  std::string recompute_predictor;   ///< empty: as `recompute`, and none with auto
  double final_weight_decay = 0.4;   ///< it follows a cosine from `weight_decay`
  std::string masks = "everywhere";  ///< or "reference"
  int64_t targets = 4;               ///< blocks that are predicted of each image
  int64_t least_context = 10;        ///< patches that the encoder sees at least
  nn::LeJepaOptions lejepa;          ///< projector and SIGReg; the rest is `model`'s
  int64_t global_views = 2, local_views = 2;
};

struct ProbeCommand : DeviceOptions {
  std::string run;   ///< a run folder or a checkpoint; empty: the newest run
  std::string data;  ///< empty: what the run trained on
  int64_t batch = 256;
  int threads = 0;  ///< 0: all
  bool json = false;
};

struct Command {
  enum class Kind : uint8_t { train, probe } kind = Kind::train;
  TrainCommand train;
  ProbeCommand probe;
  std::map<std::string, std::string> places;  ///< of the options that are from --config
};

/// Parses the command line. Prints help and exits the process with 0 where asked; throws Error on bad options.
Command parse_command_line(int argc, char** argv);

int run_train(const TrainCommand& command);
int run_probe(const ProbeCommand& command);

}  // namespace reprise::apps::jepa
