// The options of `reprise-vit` and its subcommands.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "reprise/apps/common/image_run.h"
#include "reprise/data/datasets/pack.h"
#include "reprise/nn/models/vit.h"

namespace reprise::apps::vit {

struct TrainCommand : ImageTrainingOptions {
  nn::VitOptions model;  ///< of a ResNet image, channels and width alone
  std::string recipe = "fashion", preset, stem = "conv", pool = "avg", positions = "learned";
  std::string norm = "layer";
  bool no_qkv_bias = false;
  std::string optimizer = "adamw", loss = "cross_entropy";
  double momentum = 0.9;  ///< of sgd
  bool nesterov = false;
  double smoothing = 0.1;
  double crop = 1;         ///< of evaluation (timm: crop_pct)
  double layer_decay = 1;  ///< of the rate, from a layer to the one below
};

struct EvalCommand : DeviceOptions {
  std::string run;   ///< a run folder or a checkpoint; empty: the newest run
  std::string data;  ///< empty: the test part of what the run trained on
  std::string part = "test";
  int64_t batch = 256;
  bool json = false;
};

struct PredictCommand : DeviceOptions {
  std::string run;
  std::vector<std::string> files;
  bool invert = false;  ///< dark on light, for models that were trained on light on dark
  bool json = false;
};

struct CheckCommand {
  ImageOptions images;
};

struct PackCommand {
  std::string data, out;
  data::PackOptions pack;
  std::string exif = "apply", bad_images = "error";
};

struct ShowCommand {
  std::string run;  ///< whose options are those that are left open; empty: the recipe's
  std::string out = "runs/show";
  ImageOptions images;
  std::string recipe = "fashion";
  int64_t image = 28, channels = 1;
  int64_t batch = 128, accumulate = 1, repeats = 1;
  int64_t seed = 0;
  int64_t index = -1;  ///< of an image among those to train on; -1: the first ones of the epoch
  int64_t epoch = 0;
};

struct Command {
  enum class Kind : uint8_t { train, eval, predict, check, pack, show } kind = Kind::train;
  TrainCommand train;
  EvalCommand eval;
  PredictCommand predict;
  CheckCommand check;
  PackCommand pack;
  ShowCommand show;
  std::map<std::string, std::string> places;  ///< of the options that are from --config
};

/// Parses the command line. Prints help and exits the process with 0 where asked; throws Error on bad
/// options.
Command parse_command_line(int argc, char** argv);

int run_train(const TrainCommand& command);
int run_eval(const EvalCommand& command);
int run_predict(const PredictCommand& command);
int run_check(const CheckCommand& command);
int run_pack(const PackCommand& command);
int run_show(const ShowCommand& command);

}  // namespace reprise::apps::vit
