// A Jepa, what a checkpoint keeps to build it again, and what feeds it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "reprise/apps/common/models/description.h"
#include "reprise/data/pipeline.h"
#include "reprise/nn/models/jepa.h"

namespace reprise::apps::jepa {

/// What a pretrained model needs beside its weights.
struct Pretrained {
  nn::JepaOptions model;
  std::vector<double> mean, deviation;  ///< of the pixels, of 1, a number per channel
  bool apply_exif = true;
};

/// As text, for a checkpoint.
Description describe(const Pretrained& pretrained);

/// Crops, as the paper has them.
data::Pipeline training_pipeline(const Pretrained& pretrained);
/// Whole images, resized.
data::Pipeline evaluation_pipeline(const Pretrained& pretrained);

/// Copies the weights of all three networks from a run, a checkpoint or a .safetensors file. Error listing what does not
/// fit.
void load_weights(nn::Jepa& model, const std::string& from);

struct LoadedRun {
  std::string folder;
  Pretrained pretrained;
  std::unique_ptr<nn::Jepa> model;
};

/// The model of a run folder or checkpoint, on `device`; empty: of the newest run in runs/.
LoadedRun load_run(const std::string& run, Device device);

}  // namespace reprise::apps::jepa
