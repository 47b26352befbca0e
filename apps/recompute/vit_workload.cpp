// Vision transformers.
#include "reprise/apps/recompute/image_workload.h"
#include "reprise/autograd/ops.h"
#include "reprise/nn/models/vit.h"

namespace reprise::apps::recompute {
namespace {

constexpr std::string_view vit_prefix = "vit_";

class VitWorkload final : public ImageWorkload {
 public:
  explicit VitWorkload(const WorkloadOptions& o)
      : ImageWorkload(o, {.image = 96, .rows = 4, .classes = 1000}),
        model_(nn::vit_preset(std::string_view(o.model).substr(vit_prefix.size()))) {
    model_.image = image_;
    model_.classes = classes_;
    model_.layers = blocks = or_else(o.layers, model_.layers);
    model_.width = or_else(o.width, model_.width);
    model_.heads = or_else(o.heads, model_.heads);
    model_.patch = or_else(o.patch, model_.patch);
    model_.dropout = o.dropout;
    model_.drop_path = o.drop_path;
    check(image_ % model_.patch == 0, "--image ", image_, " is not a multiple of --patch ", model_.patch);
    check(model_.width % model_.heads == 0, "--width ", model_.width, " is not a multiple of --heads ",
          model_.heads);
  }

  std::string to_string() const override {
    return reprise::detail::join("Vit: ", model_.layers, " layers, ", model_.heads, " heads, width ",
                                 model_.width, ", patches of ", model_.patch, " x ", model_.patch, ", ",
                                 classes_, " classes; ", images_per_step());
  }

  Model make_model() const override {
    auto vit = std::make_shared<nn::Vit>(model_, device);
    return {vit, vit->blocks,
            [vit](const Batch& batch) { return cross_entropy((*vit)(batch.input), batch.targets); },
            [vit](const Tensor& images) { return vit->blocks.profile(images); }};
  }

 private:
  nn::VitOptions model_;
};

}  // namespace

ModelFamily vit_family() {
  return {{"vit_tiny", "vit_small", "vit_base", "vit_large"},
          {"--layers", "--width", "--heads", "--image", "--patch", "--classes", "--dropout", "--drop-path"},
          [](const WorkloadOptions& options) -> std::unique_ptr<Workload> {
            return std::make_unique<VitWorkload>(options);
          }};
}

}  // namespace reprise::apps::recompute
