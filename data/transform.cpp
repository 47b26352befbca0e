#include "reprise/data/transform.h"

#include <algorithm>
#include <cstring>

namespace reprise::data {

void Crop::apply(io::Image& image, Draws& draws, TransformScratch& scratch) const {
  const Part part{box(image.height, image.width, draws), image.height, image.width};
  cut(image, part.box);
  apply_to_part(part, image, scratch);
}

TensorView view_of(io::Image& image) {
  TensorView view;
  view.data = image.pixels.data();
  view.shape = {image.height, image.width, image.channels};
  view.strides = {image.row_bytes(), image.channels, 1};
  view.dtype = DType::u8;
  return view;
}

TensorView view_of(io::Image& image, const io::Box& box) {
  return slice(slice(view_of(image), 0, box.top, box.top + box.height), 1, box.left, box.left + box.width);
}

void cut(io::Image& image, const io::Box& box) {
  if (box == io::Box{0, 0, image.height, image.width}) return;
  const size_t bytes = size_t(box.width * image.channels);
  uint8_t* to = image.pixels.data();
  for (int64_t y = 0; y < box.height; ++y, to += bytes)
    std::memmove(to, image.row(box.top + y) + box.left * image.channels, bytes);
  image.resize(box.height, box.width, image.channels);
}

}  // namespace reprise::data
