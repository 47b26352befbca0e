// Residual networks.
#include <numeric>

#include "reprise/apps/recompute/image_workload.h"
#include "reprise/autograd/ops.h"
#include "reprise/nn/models/resnet.h"

namespace reprise::apps::recompute {
namespace {

constexpr std::string_view resnet_prefix = "resnet";

class ResNetWorkload final : public ImageWorkload {
 public:
  explicit ResNetWorkload(const WorkloadOptions& o)
      : ImageWorkload(o, {.image = 64, .rows = 8, .classes = 1000}),
        model_(nn::resnet_preset(std::string_view(o.model).substr(resnet_prefix.size()))) {
    model_.classes = classes_;
    model_.width = or_else(o.width, model_.width);
    set_least_rows(int64_t(model_.blocks.size()) + 1);  // by the stem twice
    blocks = std::accumulate(model_.blocks.begin(), model_.blocks.end(), int64_t(0));
  }

  std::string to_string() const override {
    return reprise::detail::join("ResNet: ", blocks, " blocks, width ", model_.width, ", ", classes_,
                                 " classes; ", images_per_step());
  }

  Model make_model() const override {
    auto resnet = std::make_shared<nn::ResNet>(model_, device);
    return {resnet, resnet->blocks,
            [resnet](const Batch& batch) { return cross_entropy((*resnet)(batch.input), batch.targets); },
            [resnet](const Tensor& images) { return resnet->blocks.profile(images); }};
  }

 private:
  nn::ResNetOptions model_;
};

}  // namespace

ModelFamily resnet_family() {
  return {{"resnet18", "resnet34", "resnet50"},
          {"--width", "--image", "--classes"},
          [](const WorkloadOptions& options) -> std::unique_ptr<Workload> {
            return std::make_unique<ResNetWorkload>(options);
          }};
}

}  // namespace reprise::apps::recompute
