// Mirror images.
#pragma once

#include "reprise/data/transform.h"

namespace reprise::data {

void flip_horizontally(io::Image& image);
void flip_vertically(io::Image& image);

enum class Axis { horizontal, vertical };

/// The mirror image, left for right or top for bottom, with a probability.
class RandomFlip : public Transform {
 public:
  explicit RandomFlip(double probability = 0.5, Axis axis = Axis::horizontal)
      : probability_(probability), axis_(axis) {}
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
