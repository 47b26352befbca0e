// I-JEPA: from a part of the patches the predictor tells what an average of the encoder makes of others.
#include <algorithm>

#include <fmt/core.h>

#include "reprise/apps/jepa/objective.h"
#include "reprise/autograd/ops.h"
#include "reprise/data/masks.h"
#include "reprise/data/order.h"
#include "reprise/distributed/sharded/gather_averages.h"
#include "reprise/nn/optim/ema.h"

namespace reprise::apps::jepa {
namespace {

data::MaskOptions mask_options(const TrainCommand& c) {
  const int64_t side = c.model.image / c.model.patch;
  return {
      .rows = side,
      .columns = side,
      .targets = c.targets,
      .least_context = c.least_context,
      .sampling = c.masks == "reference" ? data::MaskSampling::reference : data::MaskSampling::everywhere};
}

class IJepa final : public Objective {
 public:
  IJepa(const TrainCommand& command, const Pretrained& pretrained, int64_t images, Device device)
      : c_(command),
        device_(device),
        pipeline_(data::jepa_train(recipe_options(pretrained, decoding_of(command.images)))),
        evaluation_(evaluation_pipeline(pretrained)),
        masks_(mask_options(command), uint64_t(command.seed)),
        order_(images, uint64_t(command.seed)),
        model_(std::get<nn::JepaOptions>(pretrained.model), device),
        target_(model_.encoder.named_parameters(), model_.target_encoder.named_parameters(),
                [this](int64_t update) { return momentum(update); }) {}

  nn::Module& model() override { return model_; }
  nn::Vit& encoder() override { return model_.encoder; }
  void set_recompute(const RecomputeStrategy& strategy) override {
    model_.encoder.blocks.set_recompute(strategy);
    if (c_.recompute_predictor.empty())
      model_.predictor.predictor_blocks.set_recompute(of_predictor(strategy));
  }

  data::Views training_views() const override { return {&pipeline_}; }
  data::Views evaluation_views() const override { return {&evaluation_}; }

  Tensor loss(const Tensor& images, int64_t step, int64_t micro) override {
    const Tensor features = model_.target_features(images);
    if (micro == 0) feature_std = nn::feature_std(features);
    return loss_of(images, features, masks_.batch(step, keys_of(step), micro * c_.batch, c_.batch, device_));
  }
  Tensor held_out_loss(const Tensor& images, int64_t batch, const std::vector<int64_t>& indices) override {
    const std::vector<uint64_t> keys(indices.begin(), indices.end());
    return loss_of(images, model_.target_features(images),
                   masks_.batch(batch, keys, 0, int64_t(keys.size()), device_));
  }
  // A step's masks differ in size from the next one's; these are the first step's.
  Tensor measured_loss(int64_t rows) override {
    const Tensor images = pixels(rows);
    return loss_of(images, model_.target_features(images), first_masks(rows));
  }
  recompute::Chain profile(int64_t rows, const recompute::ProfileOptions& options) override {
    const Tensor images = pixels(rows);
    const data::BatchMasks mask = first_masks(rows);
    return model_.profile(images, model_.target_features(images), mask.context, mask.targets, options);
  }

  void begin(optim::Optimizer& optimizer, distributed::DataParallel& parallel) override {
    parallel_ = &parallel;
    target_.set_updates(optimizer.steps());  // fewer than steps where some were skipped
    target_.follow_masters(optimizer);
    distributed::scatter_averages(parallel, target_);
  }
  // The next forward pass reads on each rank what is around the blocks of the target encoder.
  void updated() override {
    target_.update();
    distributed::gather_averages(*parallel_, target_);
  }

  Description decided() const override { return {{"pipeline", pipeline_.text()}, {"masks", masks_.text()}}; }
  std::string title() const override {
    const nn::JepaOptions& o = model_.options();
    std::string text = fmt::format(
        "I-JEPA: {} x {} pixels in patches of {}; encoder of {} layers, {} heads, width {}: {:.2f} M "
        "parameters; predictor of {} layers, width {}: {:.2f} M\n",
        o.image, o.image, o.patch, o.layers, o.heads, o.width, double(model_.encoder.parameter_count()) / 1e6,
        o.predictor_layers, o.predictor_width, double(model_.predictor.parameter_count()) / 1e6);
    const RecomputeStrategy& strategy = model_.predictor.predictor_blocks.strategy();
    if (strategy != RecomputeStrategy()) text += "Recompute of the predictor: " + to_string(strategy) + "\n";
    return text;
  }

 private:
  Tensor loss_of(const Tensor& images, const Tensor& features, const data::BatchMasks& mask) {
    return model_.loss(images, features, mask.context, mask.targets);
  }
  Tensor pixels(int64_t rows) const {
    const nn::JepaOptions& o = model_.options();
    return zeros({rows, o.channels, o.image, o.image}, DType::f32, device_);
  }
  data::BatchMasks first_masks(int64_t rows) const {
    std::vector<uint64_t> keys = keys_of(0);
    keys.resize(std::max(keys.size(), size_t(rows)), keys.front());
    return masks_.batch(0, keys, 0, rows, device_);
  }
  double momentum(int64_t update) const {
    return c_.ema + (1 - c_.ema) * double(update) / double(c_.trainer.schedule.steps);
  }
  // Keys of all images of a step, on any rank: the shortest context of all decides.
  std::vector<uint64_t> keys_of(int64_t step) const {
    const int64_t rows = c_.batch * c_.trainer.accumulate;
    std::vector<uint64_t> keys;
    for (int64_t row = 0; row < rows; ++row) keys.push_back(order_.at(step * rows + row).key);
    return keys;
  }

  const TrainCommand& c_;
  const Device device_;
  const data::Pipeline pipeline_, evaluation_;
  const data::Masks masks_;
  const data::Order order_;
  nn::Jepa model_;
  optim::Ema target_;
  distributed::DataParallel* parallel_ = nullptr;  // from begin on
};

}  // namespace

std::unique_ptr<Objective> make_ijepa(const TrainCommand& command, const Pretrained& pretrained,
                                      int64_t images, Device device) {
  return std::make_unique<IJepa>(command, pretrained, images, device);
}

}  // namespace reprise::apps::jepa
