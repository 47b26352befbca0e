// I-JEPA: strategies are those of the context encoder and of the predictor; nothing of the target is kept.
#include <numeric>

#include "reprise/apps/recompute/image_workload.h"
#include "reprise/data/masks.h"
#include "reprise/nn/models/jepa.h"

namespace reprise::apps::recompute {
namespace {

constexpr std::string_view jepa_prefix = "jepa_";

class JepaWorkload final : public ImageWorkload {
 public:
  explicit JepaWorkload(const WorkloadOptions& o) : ImageWorkload(o, {.image = 96, .rows = 4, .classes = 1}) {
    const nn::VitOptions encoder = nn::vit_preset(std::string_view(o.model).substr(jepa_prefix.size()));
    model_.image = image_;
    model_.layers = blocks = or_else(o.layers, encoder.layers);
    model_.width = or_else(o.width, encoder.width);
    model_.heads = or_else(o.heads, encoder.heads);
    model_.patch = or_else(o.patch, 8);
    model_.predictor_width = model_.width / 2;
    model_.predictor_heads = model_.heads;
    predictor_blocks = model_.predictor_layers;
    model_.drop_path = o.drop_path;
    check(image_ % model_.patch == 0, "--image ", image_, " is not a multiple of --patch ", model_.patch);
    check(model_.predictor_width % model_.heads == 0 && model_.width % 2 == 0, "--width ", model_.width,
          ": the predictor has half of it, which must be a multiple of --heads ", model_.heads);
  }

  std::string to_string() const override {
    return reprise::detail::join("I-JEPA: encoder of ", model_.layers, " layers, ", model_.heads,
                                 " heads, width ", model_.width, ", predictor of ", model_.predictor_layers,
                                 " layers, width ", model_.predictor_width, ", patches of ", model_.patch,
                                 " x ", model_.patch, "; ", images_per_step());
  }

  Model make_model() const override {
    auto jepa = std::make_shared<nn::Jepa>(model_, device);
    const int64_t side = image_ / model_.patch;
    auto mask_of = [masks = data::Masks({.rows = side, .columns = side}, seed),
                    place = device](const Tensor& images) {
      std::vector<uint64_t> keys(static_cast<size_t>(images.size(0)));
      std::iota(keys.begin(), keys.end(), 0);
      return masks.batch(0, keys, 0, images.size(0), place);
    };
    auto loss = [jepa, mask_of](const Batch& batch) {
      const data::BatchMasks mask = mask_of(batch.input);
      return jepa->loss(batch.input, jepa->target_features(batch.input), mask.context, mask.targets);
    };
    auto profile = [jepa, mask_of](const Tensor& images) {
      const data::BatchMasks mask = mask_of(images);
      return jepa->profile(images, jepa->target_features(images), mask.context, mask.targets);
    };
    return {jepa, jepa->encoder.blocks, loss, profile, &jepa->predictor.predictor_blocks};
  }

 private:
  nn::JepaOptions model_;
};

}  // namespace

ModelFamily jepa_family() {
  return {{"jepa_tiny", "jepa_small", "jepa_base", "jepa_large"},
          {"--layers", "--width", "--heads", "--image", "--patch", "--drop-path", "--recompute-predictor"},
          [](const WorkloadOptions& options) -> std::unique_ptr<Workload> {
            return std::make_unique<JepaWorkload>(options);
          }};
}

}  // namespace reprise::apps::recompute
