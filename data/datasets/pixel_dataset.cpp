#include "reprise/data/datasets/pixel_dataset.h"

#include "reprise/core/error.h"
#include "reprise/io/images/cut.h"

namespace reprise::data {

PixelDataset::PixelDataset(Pixels pixels) : pixels_(std::move(pixels)) {
  const std::string& file = pixels_.name;
  check(image_bytes() > 0, "dataset: ", file, ": its images are ", pixels_.height, " x ", pixels_.width,
        " pixels");
  int64_t images = int64_t(pixels_.images.size()) / image_bytes();
  check(images > 0, "dataset: ", file, ": holds no images");
  check(images == size(), "dataset: ", file, ": holds ", images, " images and ", size(), " labels");
  check(classes() >= 2, "dataset: ", file, ": there is nothing to learn: it has ", classes(), " class");
  for (int64_t i = 0; i < size(); ++i)
    check(label(i) < classes(), "dataset: ", name(i), ": its label is ", label(i), ", but there are ",
          classes(), " classes");
}

int64_t PixelDataset::label(int64_t index) const {
  check_index(index);
  return uint8_t(pixels_.labels[size_t(index)]);
}

std::string PixelDataset::name(int64_t index) const {
  return pixels_.name + ", image " + std::to_string(index);
}

void PixelDataset::read(int64_t index, const io::DecodeOptions& options, io::Image& image) const {
  check_index(index);
  const auto* pixels = reinterpret_cast<const uint8_t*>(pixels_.images.data()) + index * image_bytes();
  io::cut_image(pixels, pixels_.height, pixels_.width, pixels_.channels, options, pixels_.name, image);
}

}  // namespace reprise::data
