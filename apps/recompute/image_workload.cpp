// Drawing images.
#include "reprise/apps/recompute/image_workload.h"

#include "reprise/autograd/ops.h"

namespace reprise::apps::recompute {

ImageWorkload::ImageWorkload(const WorkloadOptions& o, const Preset& preset)
    : Workload(o), image_(or_else(o.image, preset.image)), classes_(or_else(o.classes, preset.classes)) {
  rows = or_else(o.batch, preset.rows);
  units = "images";
}

Batch ImageWorkload::batch(int64_t step, int64_t n) const {
  MemoryScope scope(MemoryCategory::data);
  Generator generator(philox_block(seed, uint64_t(step), 0)[0]);
  Tensor images = randn({n, 3, image_, image_}, DType::f32, device, &generator);
  Tensor uniform = rand({n * labels_per_image_}, DType::f32, device, &generator);
  return {images, cast(uniform * double(classes_), DType::i64)};
}

std::string ImageWorkload::images_per_step() const {
  return per_step(reprise::detail::join(rows, " images of ", image_, " x ", image_));
}

}  // namespace reprise::apps::recompute
