// The images of a run: to train on, held out, and the test part that only the end sees; and what turns them into batches.
#pragma once

#include <memory>

#include "reprise/apps/vit/model.h"
#include "reprise/apps/vit/options.h"
#include "reprise/data/dataset.h"
#include "reprise/data/recipes.h"

namespace reprise::apps::vit {

struct ImageData {
  std::shared_ptr<const data::Dataset> train, validation;
  std::shared_ptr<const data::Dataset> test;  ///< null if the data has none
};

/// Reads what `--data` names. Without a validation part a share of the training images is held out, by (seed, index).
/// Error naming the option, the file and what is wrong.
ImageData load_images(const ImageOptions& options, uint64_t seed);

/// Mean and deviation of the pixels of this data, of 1, a number for each of 1 or 3 channels; ImageNet's where it is not
/// known.
data::Statistics pixel_statistics(const std::string& data, int64_t channels);

/// What evaluation does to an image: short side to image / crop, the middle of it, normalised.
data::Pipeline evaluation_pipeline(const Classifier& classifier);
/// What training does. Error listing the recipes if there is none of this name.
data::Pipeline training_pipeline(const Classifier& classifier, const std::string& recipe);

/// Number of images and CRC-32C of their names and labels, as the TOML that a run folder keeps in data.toml.
std::string data_record(const ImageData& images);
/// How `images` differ from those that the run was started with; empty if they do not.
std::string difference_of_data(const std::string& run_folder, const ImageData& images);
bool has_data_record(const std::string& run_folder);

}  // namespace reprise::apps::vit
