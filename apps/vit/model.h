// Loading of classifiers.
#pragma once

#include <memory>
#include <string>

#include "reprise/apps/common/models/classifier.h"

namespace reprise::apps::vit {

/// Copies weights from a run, also of reprise-jepa, a checkpoint, or a file of timm's or Hugging Face's ViT or torchvision's
/// ResNet. Positions of another image size are resampled and a head for other classes is left as it is made
/// (`nn::load_pretrained`), which is said; so is it where the weights were trained on pixels that were normalised otherwise
/// than those of `classifier`. Error listing all else that does not fit.
void load_weights(const ImageModel& model, const Classifier& classifier, const std::string& from);

struct LoadedRun {
  std::string folder;
  Classifier classifier;
  std::unique_ptr<ImageModel> model;
};

/// The model of a run folder or checkpoint, on `device`; empty: of the newest run in runs/. Averaged weights
/// where there are any.
LoadedRun load_run(const std::string& run, Device device);

}  // namespace reprise::apps::vit
