// Models of images, on images drawn from the seed.
#pragma once

#include "reprise/apps/recompute/families.h"

namespace reprise::apps::recompute {

/// What vision models share: square images of three channels, and a class for each image or pixel.
class ImageWorkload : public Workload {
 public:
  Batch batch(int64_t step, int64_t n) const override;

 protected:
  /// What a model has where no option says otherwise.
  struct Preset {
    int64_t image, rows, classes;
  };
  ImageWorkload(const WorkloadOptions& options, const Preset& preset);
  /// BatchNorm has no variance of one value: two rows are the least where `halvings` leave one pixel.
  void set_least_rows(int64_t halvings) { least_rows = image_ > (int64_t(1) << halvings) ? 1 : 2; }
  /// "4 images of 96 x 96 per step, on ...".
  std::string images_per_step() const;

  int64_t image_, classes_;
  int64_t labels_per_image_ = 1;
};

}  // namespace reprise::apps::recompute
