// Mirror images.
#pragma once

#include "reprise/data/transform.h"

namespace reprise::data {

void flip_horizontally(io::Image& image);  ///< left for right, in place
void flip_vertically(io::Image& image);    ///< top for bottom, in place

/// Which sides change places: left and right, or top and bottom.
enum class Axis { horizontal, vertical };

/// The mirror image, left for right or top for bottom, with a probability.
class RandomFlip : public Transform {
 public:
  /// Error unless `probability` is in [0, 1]. The two axes have draws of their own, so that a pipeline may have both.
  explicit RandomFlip(double probability = 0.5, Axis axis = Axis::horizontal);
  Decision decision() const override {
    return axis_ == Axis::horizontal ? Decision::flip : Decision::vertical_flip;
  }
  void apply(io::Image& image, Draws& draws, TransformScratch& scratch) const override;
  std::string text() const override;

 private:
  double probability_;
  Axis axis_;
};

}  // namespace reprise::data
