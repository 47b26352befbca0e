// What a classifier says of a set of images, and how right it is.
#pragma once

#include <vector>

#include "reprise/apps/common/models/image_model.h"
#include "reprise/data/dataset.h"
#include "reprise/data/pipeline.h"
#include "reprise/distributed/data_parallel/data_parallel.h"
#include "reprise/plot/confusion_plot.h"
#include "reprise/train/validation.h"

namespace reprise::apps::vit {

/// The answer to one image.
struct Answer {
  int64_t index = 0;  ///< of the image, in its dataset
  int64_t label = 0, answer = 0;
  double probability = 0;  ///< of the answer
};

struct Evaluation {
  int64_t images = 0;  ///< that could be read
  int64_t right = 0, right_of_five = 0;
  double loss = 0;  ///< mean cross entropy, nats per image
  plot::Confusion confusion{};
  std::vector<Answer> answers{};
  std::vector<std::string> bad_images{};

  double top1() const { return images > 0 ? double(right) / double(images) : 0; }
  double top5() const { return images > 0 ? double(right_of_five) / double(images) : 0; }
};

/// Every image once, in evaluation mode. May give up by `train::stop_if_interrupted`.
Evaluation evaluate(const ImageModel& model, const data::Dataset& images, const data::Pipeline& pipeline,
                    int64_t batch);

/// Mean loss and share of right answers of the images that can be read; of at most `batches` batches, spread over all, if that is
/// above 0. The ranks of `parallel`, which has this model, share the batches, and all of them call it; the numbers have the same bits on any number of them.
/// Gives up as train::sums_of_batches does.
train::Validation validate(distributed::DataParallel& parallel, const ImageModel& model,
                           const data::Dataset& images, const data::Pipeline& pipeline, int64_t batch,
                           int64_t batches);

/// The probabilities of the classes, (B, classes) by rows.
std::vector<std::vector<float>> probabilities(const ImageModel& model, const Tensor& images);

}  // namespace reprise::apps::vit
