// What programs that train on images do around the loop: epochs as steps, the record of the images, the loader.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "reprise/apps/common/images.h"
#include "reprise/apps/common/training_options.h"
#include "reprise/data/loader.h"

namespace reprise::apps {

struct ImageTrainingOptions : TrainingOptions {
  ImageOptions images;
  double epochs = 6, warmup_epochs = 0.5;
  int64_t repeats = 1;  ///< of each image per epoch
};

/// --epochs and --warmup-epochs.
void add_epoch_options(CLI::App& group, ImageTrainingOptions& options);

/// Width, layers and heads of --model, where they are left open: `name` is of `nn::vit_preset`, or empty.
void take_preset(CLI::App& train, const std::string& name);

/// Steps, warm-up and evaluations that are given in epochs become steps. Error naming the option if they cannot be
/// counted, or if there is nothing to train.
void count_steps(ImageTrainingOptions& options, int64_t images);

/// For --resume: one Error with all that differs from the run's options and images (`check_changes`).
void check_resumed(const ImageTrainingOptions& options, const std::set<std::string>& fixed,
                   const ImageData& images);

/// Error on all ranks, with the first difference, unless they have the same options and images.
void check_same_run(distributed::ProcessGroup& group, const ImageTrainingOptions& options,
                    const ImageData& images);

/// Keeps options and the record of the images in the run folder.
void keep_options(const ImageTrainingOptions& options, const ImageData& images, int64_t first_step);

/// `smoothing`: of labels that are mixed.
data::LoaderOptions loader_options(const ImageTrainingOptions& options, double smoothing = 0);

/// Lists the images that could not be read in the run folder, and says so.
void keep_bad_images(const std::string& folder, const std::vector<std::string>& bad);

}  // namespace reprise::apps
