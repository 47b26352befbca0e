// A Vit and what a checkpoint keeps to build it, and what feeds it, again.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "reprise/nn/models/vit.h"

namespace reprise::apps::vit {

/// What a trained classifier needs beside its weights.
struct Classifier {
  nn::VitOptions model;
  std::vector<std::string> class_names;
  std::vector<double> mean, deviation;  ///< of the pixels, of 1, a number per channel
  double crop = 1;  ///< the side of the evaluated middle in that of the resized image (timm: crop_pct)
  bool apply_exif = true;
};

/// As text, for a checkpoint. Error if a class's name holds a line break.
std::map<std::string, std::string> describe(const Classifier& classifier);

/// Copies weights from a run, a checkpoint or a .safetensors file with timm's names. A head for another number of classes
/// is left as it is made, which is said. Error listing all else that does not fit.
void load_weights(nn::Vit& model, const std::string& from);

struct LoadedRun {
  std::string folder;
  Classifier classifier;
  std::unique_ptr<nn::Vit> model;
};

/// The model of a run folder or checkpoint, on `device`; empty: of the newest run in runs/. Averaged weights
/// where there are any.
LoadedRun load_run(const std::string& run, Device device);

}  // namespace reprise::apps::vit
