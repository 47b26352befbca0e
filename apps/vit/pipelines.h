// What happens to images on their way to a classifier.
#pragma once

#include "reprise/apps/common/models/classifier.h"
#include "reprise/data/pipeline.h"

namespace reprise::apps::vit {

/// What evaluation does to an image: short side to image / crop (bicubic, for a ResNet bilinear, as timm and torchvision
/// do), the middle of it, normalised.
data::Pipeline evaluation_pipeline(const Classifier& classifier);
/// What training does. Error listing the recipes if there is none of this name.
data::Pipeline training_pipeline(const Classifier& classifier, const std::string& recipe,
                                 data::Decoding decoding);

}  // namespace reprise::apps::vit
