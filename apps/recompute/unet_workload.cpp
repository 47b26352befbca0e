// UNets, with a class for each pixel.
#include "reprise/apps/recompute/image_workload.h"
#include "reprise/autograd/ops.h"
#include "reprise/nn/models/unet.h"

namespace reprise::apps::recompute {
namespace {

// Pixels (N H W, classes), in the order of their targets.
Tensor by_pixel(const Tensor& logits) {
  const int64_t classes = logits.size(1);
  return reshape(permute(logits, {0, 2, 3, 1}), {logits.numel() / classes, classes});
}

class UNetWorkload final : public ImageWorkload {
 public:
  explicit UNetWorkload(const WorkloadOptions& o)
      : ImageWorkload(o, {.image = 64, .rows = 4, .classes = 2}),
        model_{.classes = classes_, .features = or_else(o.width, 32)} {
    const int64_t least = int64_t(1) << model_.depth;
    check(image_ >= least, "--image ", image_, " is too small to be halved ", model_.depth,
          " times: at least ", least);
    set_least_rows(model_.depth);
    labels_per_image_ = image_ * image_;
    blocks = 2 * model_.depth + 1;
  }

  std::string to_string() const override {
    return reprise::detail::join("UNet: ", blocks, " stages, width ", model_.features, ", ", classes_,
                                 " classes; ", images_per_step());
  }

  Model make_model() const override {
    auto unet = std::make_shared<nn::UNet>(model_, device);
    return {
        unet, *unet,
        [unet](const Batch& batch) { return cross_entropy(by_pixel((*unet)(batch.input)), batch.targets); },
        [unet](const Tensor& images) { return unet->profile(images); }};
  }

 private:
  nn::UNetOptions model_;
};

}  // namespace

ModelFamily unet_family() {
  return {{"unet"},
          {"--width", "--image", "--classes"},
          [](const WorkloadOptions& options) -> std::unique_ptr<Workload> {
            return std::make_unique<UNetWorkload>(options);
          }};
}

}  // namespace reprise::apps::recompute
