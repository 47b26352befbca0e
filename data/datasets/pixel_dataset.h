// PixelDataset: images of one size, decoded and in memory. What small data sets are read into.
#pragma once

#include <string>
#include <vector>

#include "reprise/data/dataset.h"

namespace reprise::data {

/// What a PixelDataset is made of.
struct Pixels {
  int64_t height = 0;                    ///< of each image, in pixels
  int64_t width = 0;                     ///< of each image, in pixels
  int64_t channels = 1;                  ///< 1: gray, 3: red, green, blue
  std::string images;                    ///< u8 (N, height, width, channels)
  std::string labels;                    ///< u8 (N)
  std::vector<std::string> class_names;  ///< by label
  std::string name;                      ///< of the file or folder, for messages
};

/// Images of one size, decoded and in memory: what cifar10, cifar100 and idx_dataset give. Thread-safe.
class PixelDataset : public Dataset {
 public:
  /// Error if there are no images, if images and labels differ in number, if a label has no class.
  explicit PixelDataset(Pixels pixels);

  int64_t size() const override { return int64_t(pixels_.labels.size()); }
  const std::vector<std::string>& class_names() const override { return pixels_.class_names; }
  int64_t label(int64_t index) const override;
  std::string name(int64_t index) const override;
  void read(int64_t index, const io::DecodeOptions& options, io::Image& image) const override;

 private:
  int64_t image_bytes() const { return pixels_.height * pixels_.width * pixels_.channels; }

  Pixels pixels_;
};

}  // namespace reprise::data
