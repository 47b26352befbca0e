// A classifier of images, and how a checkpoint keeps what builds and feeds it.
#pragma once

#include <vector>

#include "reprise/apps/common/models/description.h"
#include "reprise/apps/common/models/image_model.h"

namespace reprise::apps {

/// What a trained classifier needs beside its weights.
struct Classifier {
  ImageModelOptions model{};
  int64_t image = 224;  ///< pixels of a side
  std::vector<std::string> class_names{};
  std::vector<double> mean{}, deviation{};  ///< of the pixels, of 1, a number per channel
  double crop = 1;  ///< the side of the evaluated middle in that of the resized image (timm: crop_pct)
  bool apply_exif = true;

  int64_t channels() const { return int64_t(mean.size()); }
};

/// As text, for a checkpoint. Error if a class's name holds a line break.
Description describe(const Classifier& classifier);
/// Error naming the entry that is missing or does not fit.
Classifier classifier_from(const Description& description);

}  // namespace reprise::apps
