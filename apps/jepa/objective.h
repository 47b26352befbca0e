// What is learned from images: the model, the views of an image that it is given, and its loss.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "reprise/apps/jepa/model.h"
#include "reprise/apps/jepa/options.h"
#include "reprise/autograd/recompute/planner/profile.h"
#include "reprise/autograd/recompute/planner/strategy.h"
#include "reprise/data/views.h"
#include "reprise/distributed/data_parallel/data_parallel.h"

namespace reprise::apps::jepa {

/// The strategy of I-JEPA's predictor where it has none of its own: as the encoder's, whose plans are for the encoder alone.
inline RecomputeStrategy of_predictor(const RecomputeStrategy& encoder) {
  using Kind = RecomputeStrategy::Kind;
  const bool is_planned = encoder.kind == Kind::automatic || encoder.kind == Kind::plan;
  return is_planned ? RecomputeStrategy() : encoder;
}

class Objective {
 public:
  virtual ~Objective() = default;

  virtual nn::Module& model() = 0;
  /// The one that is trained.
  virtual nn::Vit& encoder() = 0;
  virtual void set_recompute(const RecomputeStrategy& strategy) = 0;

  /// Of each image; those of held-out ones are the same at each evaluation.
  virtual data::Views training_views() const = 0;
  virtual data::Views evaluation_views() const = 0;
  /// Images that a micro-batch needs.
  virtual int64_t least_batch() const { return 1; }

  /// Of the images of a micro-batch, as `data::ImageLoader` gives them.
  virtual Tensor loss(const Tensor& images, int64_t step, int64_t micro) = 0;
  /// Of held-out images, whose numbers are `indices`.
  virtual Tensor held_out_loss(const Tensor& images, int64_t batch, const std::vector<int64_t>& indices) = 0;
  /// Of `rows` images that are all alike, at the memory of a step's.
  virtual Tensor measured_loss(int64_t rows) = 0;
  /// Measures the encoder's blocks in such a step for the planner.
  virtual recompute::Chain profile(int64_t rows, const recompute::ProfileOptions& options) = 0;

  /// All is restored, and this optimizer will change the weights on the ranks of `parallel`; both outlive it.
  virtual void begin(optim::Optimizer& optimizer, distributed::DataParallel& parallel) {
    (void)optimizer, (void)parallel;
  }
  /// The optimizer has changed the weights, on all ranks.
  virtual void updated() {}

  /// What beside the model decides what a step computes, for checkpoints; it may change with --change.
  virtual Description decided() const = 0;
  /// What a run says of its model first, in lines.
  virtual std::string title() const = 0;

  /// `nn::feature_std` of the last step's first micro-batch: near 0 where all images look the same.
  double feature_std = 0;
};

/// Over `images` training images. They keep `command`, whose batch may still change.
std::unique_ptr<Objective> make_ijepa(const TrainCommand& command, const Pretrained& pretrained,
                                      int64_t images, Device device);
std::unique_ptr<Objective> make_lejepa(const TrainCommand& command, const Pretrained& pretrained,
                                       Device device);

}  // namespace reprise::apps::jepa
