// LeJEPA: the views of an image are to have the same features, and the features of a batch those of a normal distribution.
#include <fmt/core.h>

#include "reprise/apps/jepa/objective.h"
#include "reprise/autograd/ops.h"

namespace reprise::apps::jepa {
namespace {

class LeJepa final : public Objective {
 public:
  LeJepa(const TrainCommand& command, const Pretrained& pretrained, Device device)
      : c_(command),
        device_(device),
        global_(data::lejepa_global(recipe_options(pretrained, decoding_of(command.images)))),
        local_(data::lejepa_local(recipe_options(pretrained, decoding_of(command.images)))),
        views_(size_t(command.global_views), &global_),
        model_(std::get<nn::LeJepaOptions>(pretrained.model), device) {
    views_.resize(size_t(command.global_views + command.local_views), &local_);
  }

  nn::Module& model() override { return model_; }
  nn::Vit& encoder() override { return model_.encoder; }
  void set_recompute(const RecomputeStrategy& strategy) override {
    model_.encoder.blocks.set_recompute(strategy);
  }

  data::Views training_views() const override { return views_; }
  data::Views evaluation_views() const override { return views_; }
  int64_t least_batch() const override { return 2; }  // one is no distribution

  Tensor loss(const Tensor& images, int64_t step, int64_t micro) override {
    const Tensor projected = model_.project(by_view(images));  // (V, B, features)
    if (micro == 0) feature_std = nn::feature_std(unsqueeze(select(projected, 0, 0), 1));
    return model_.compare(projected, model_.directions(uint64_t(c_.seed), step), c_.global_views);
  }
  Tensor held_out_loss(const Tensor& images, int64_t batch, const std::vector<int64_t>&) override {
    return model_.loss(by_view(images), model_.directions(uint64_t(c_.seed), batch), c_.global_views);
  }
  Tensor measured_loss(int64_t rows) override {
    return model_.loss(by_view(pixels(rows)), model_.directions(uint64_t(c_.seed), 0), c_.global_views);
  }
  recompute::Chain profile(int64_t rows, const recompute::ProfileOptions& options) override {
    return model_.encoder.blocks.profile(pixels(rows), options);
  }

  Description decided() const override {
    const nn::LeJepaOptions& o = model_.options();
    return {{"views", fmt::format("{} of: {}; {} of: {}", c_.global_views, global_.text(), c_.local_views,
                                  local_.text())},
            {"sigreg", fmt::format("{} along {} directions", o.lambda, o.directions)}};
  }
  std::string title() const override {
    const nn::LeJepaOptions& o = model_.options();
    return fmt::format(
        "LeJEPA: {} x {} pixels in patches of {}; encoder of {} layers, {} heads, width {}: {:.2f} M "
        "parameters; projector to {} features by {}; {} large and {} small views of each image\n",
        o.image, o.image, o.patch, o.layers, o.heads, o.width, double(model_.encoder.parameter_count()) / 1e6,
        o.features, o.hidden, c_.global_views, c_.local_views);
  }

 private:
  // (V B, C, H, W)
  Tensor pixels(int64_t rows) const {
    const nn::LeJepaOptions& o = model_.options();
    return zeros({int64_t(views_.size()) * rows, o.channels, o.image, o.image}, DType::f32, device_);
  }
  // (V B, C, H, W) -> (V, B, C, H, W)
  Tensor by_view(const Tensor& images) const {
    const auto views = int64_t(views_.size());
    return reshape(images, {views, images.size(0) / views, images.size(1), images.size(2), images.size(3)});
  }

  const TrainCommand& c_;
  const Device device_;
  const data::Pipeline global_, local_;
  data::Views views_;
  nn::LeJepa model_;
};

}  // namespace

std::unique_ptr<Objective> make_lejepa(const TrainCommand& command, const Pretrained& pretrained,
                                       Device device) {
  return std::make_unique<LeJepa>(command, pretrained, device);
}

}  // namespace reprise::apps::jepa
