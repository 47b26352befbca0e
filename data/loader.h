// ImageLoader: the batches of a run, made ahead by threads, as tensors on a device. A batch is a function of the seed and
// the step alone: no number of workers, depth, rank or restart changes a bit, and resuming needs the step, nothing else.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "reprise/core/tensor.h"
#include "reprise/data/bad_images.h"
#include "reprise/data/views.h"

namespace reprise::data {

/// What a classifier is given.
struct ImageBatch {
  /// f32 (B, C, H, W), normalised; of V views (V B, C, H, W), one view of all after the other.
  Tensor images;
  Tensor targets;  ///< i64 (B), classes; f32 (B, classes), probabilities, where pairs are mixed
};

/// What a step's batches are, which of them are asked for here, and the threads that make them.
struct LoaderOptions {
  int64_t batch = 64;       ///< images per micro-batch; even if the pipeline mixes pairs
  int64_t accumulate = 1;   ///< micro-batches per step
  int64_t share_begin = 0;  ///< the first of those that are asked for here: other ranks take the others
  int64_t share = 0;        ///< how many follow; 0: all of them
  uint64_t seed = 0;        ///< of the order and all draws
  int64_t repeats = 1;      ///< of each image per epoch (repeated augmentation)
  double smoothing = 0;     ///< of the probabilities, where pairs are mixed; classes are left to the loss
  int64_t workers = 1;      ///< threads; 0: the caller's pool
  int64_t prefetch = 2;     ///< batches they work ahead
  BadImages bad_images = BadImages::error;  ///< what an image that cannot be read means
};

/// Batches of a run from a dataset and a pipeline, on a device. A batch is a function of the seed and the step alone.
class ImageLoader {
 public:
  /// `dataset` and `pipeline` must outlive it. Error if an option does not fit.
  ImageLoader(const Dataset& dataset, const Pipeline& pipeline, const LoaderOptions& options,
              Device device = {})
      : ImageLoader(dataset, Views{&pipeline}, options, device) {}
  ImageLoader(const Dataset&& dataset, const Pipeline& pipeline, const LoaderOptions& options,
              Device device = {}) = delete;  ///< it would be gone
  /// With several views of each image, as the draws of a sample's repeats would make them.
  ImageLoader(const Dataset& dataset, const Views& views, const LoaderOptions& options, Device device = {});
  /// Ends its threads, each after the image it is at.
  ~ImageLoader();

  /// Micro-batch `micro` of a step, one of the share. Position step x rows + row of the run gives each row; a batch
  /// may straddle two epochs, nothing is dropped and nothing seen twice within one.
  ImageBatch batch(int64_t step, int64_t micro = 0);

  double waited_seconds() const;  ///< for images, so far
  int64_t misses() const;         ///< batches asked for out of order
  /// "photos/a.jpg: reason", of those that could not be read so far; none under BadImages::error.
  std::vector<std::string> bad_images() const;

 private:
  struct Work;  // what threads share
  std::unique_ptr<Work> work_;
};

/// Every image of a dataset once, in order, the last batch short: for evaluation.
class EvaluationBatches {
 public:
  /// `dataset` and `pipeline`, which draws nothing, must outlive it.
  EvaluationBatches(const Dataset& dataset, const Pipeline& pipeline, int64_t batch, Device device = {})
      : EvaluationBatches(dataset, Views{&pipeline}, batch, 0, device) {}
  /// Views of each image, drawn by (seed, index): the same at each evaluation.
  EvaluationBatches(const Dataset& dataset, const Views& views, int64_t batch, uint64_t seed,
                    Device device = {});

  /// Images that could be read, in the dataset's order.
  struct Batch {
    Tensor images;  ///< (B, C, H, W) of those that could be read, or (V B, C, H, W); undefined if none could
    std::vector<int64_t> indices;  ///< of the images, in the dataset
    std::vector<int64_t> labels;   ///< the class of each
  };
  /// Batches of the dataset, the last one counted, which may be short.
  int64_t batches() const { return (dataset_.size() + batch_ - 1) / batch_; }
  /// Batch `number`, decoded on the caller's pool. Error unless it is in [0, batches()).
  Batch at(int64_t number);

  /// Images that could not be read so far, one reason for each; nothing stands in for them.
  const std::vector<std::string>& bad_images() const { return bad_images_; }

 private:
  const Dataset& dataset_;
  const Views views_;
  int64_t batch_;
  uint64_t seed_;
  Tensor table_;  // on the device
  std::set<int64_t> bad_indices_;
  std::vector<std::string> bad_images_;
};

}  // namespace reprise::data
