// A Jepa or a LeJepa, what a checkpoint keeps to build it again, and what feeds it.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "reprise/apps/common/models/description.h"
#include "reprise/data/recipes.h"
#include "reprise/nn/models/jepa.h"
#include "reprise/nn/models/lejepa.h"

namespace reprise::apps::jepa {

/// What a pretrained model needs beside its weights.
struct Pretrained {
  std::variant<nn::JepaOptions, nn::LeJepaOptions> model{};
  std::vector<double> mean, deviation;  ///< of the pixels, of 1, a number per channel
  bool apply_exif = true;
};

/// As text, for a checkpoint.
Description describe(const Pretrained& pretrained);

/// What all pipelines have in common.
data::RecipeOptions recipe_options(const Pretrained& pretrained, data::Decoding decoding = {});
/// Whole images, resized.
data::Pipeline evaluation_pipeline(const Pretrained& pretrained);

/// A model, and the encoder in it that makes the features: the target encoder of a Jepa.
struct Network {
  std::unique_ptr<nn::Module> model;
  nn::Vit* encoder;
};
/// With weights as a run begins.
Network make_network(const Pretrained& pretrained, Device device);

/// Copies the weights of all networks from a run, a checkpoint or a .safetensors file. Error listing what does not fit.
void load_weights(nn::Module& model, const std::string& from);

struct LoadedRun {
  std::string folder;
  Pretrained pretrained;
  Network network;
};

/// The model of a run folder or checkpoint, on `device`; empty: of the newest run in runs/.
LoadedRun load_run(const std::string& run, Device device);

}  // namespace reprise::apps::jepa
