// The images of a run: to train on, held out, and the test part that only the end sees.
#pragma once

#include <memory>

#include <string>

#include "reprise/data/dataset.h"
#include "reprise/data/recipes.h"

namespace CLI {
class App;
}

namespace reprise::apps {

struct ImageOptions {
  std::string data =
      "fashion-mnist";        ///< fashion-mnist, cifar10:DIR, cifar100:DIR, idx:DIR, a folder or tar shards
  double val_fraction = 0.1;  ///< of the training images, where the data has no validation part
  std::string exif = "apply";
  std::string decode = "exact";
  std::string bad_images = "error";
  int64_t workers = 1;   ///< threads that decode and augment
  int64_t prefetch = 2;  ///< batches ahead
};

inline constexpr const char* data_help =
    "Images to learn from: fashion-mnist (Debian's package), cifar10:DIR, cifar100:DIR,\n"
    "idx:DIR, a folder with a folder per class, or tar shards (WebDataset)";
void add_image_options(CLI::App& app, ImageOptions& options);
void add_worker_options(CLI::App& app, ImageOptions& options);

struct ImageData {
  std::shared_ptr<const data::Dataset> train, validation;
  std::shared_ptr<const data::Dataset> test;  ///< null if the data has none
};

/// What `--decode` says.
data::Decoding decoding_of(const ImageOptions& options);

/// What `--data` names, in the parts that it has: `validation` is null if it has none. Error naming the option, the file and
/// what is wrong.
ImageData open_images(const std::string& source);

/// The same for a run. Without a validation part a share of the training images is held out, by (seed, index).
/// Error naming the option, the file and what is wrong.
ImageData load_images(const ImageOptions& options, uint64_t seed);

/// Mean and deviation of the pixels of this data, of 1, a number for each of 1 or 3 channels; ImageNet's where it is not
/// known.
data::Statistics pixel_statistics(const std::string& data, int64_t channels);

/// What a run was trained on, split as it was; or other images, if `data` says so. Error naming --data if the run does not
/// say.
ImageData images_of_run(const std::string& run_folder, const std::string& data);

/// Number of images and CRC-32C of their names and labels, as the TOML that a run folder keeps in data.toml.
std::string data_record(const ImageData& images);
/// How `images` differ from those that the run was started with; empty if they do not.
std::string difference_of_data(const std::string& run_folder, const ImageData& images);
bool has_data_record(const std::string& run_folder);

}  // namespace reprise::apps
