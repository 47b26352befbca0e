#include "reprise/data/datasets/idx_dataset.h"

#include <algorithm>

#include "reprise/core/error.h"
#include "reprise/io/arrays/idx.h"
#include "reprise/io/folder.h"

namespace reprise::data {

PixelDataset idx_dataset(const std::string& images_path, const std::string& labels_path,
                         std::vector<std::string> class_names) {
  io::IdxArray images = io::read_idx(images_path, 3);
  io::IdxArray labels = io::read_idx(labels_path, 1);
  check(images.shape[0] == labels.shape[0], "dataset: ", images_path, " holds ", images.shape[0],
        " images, but ", labels_path, " ", labels.shape[0], " labels");
  if (class_names.empty()) {
    uint8_t largest = 0;
    for (char label : labels.bytes) largest = std::max(largest, uint8_t(label));
    for (int i = 0; i <= largest; ++i) class_names.push_back(std::to_string(i));
  }
  return PixelDataset({.height = images.shape[1],
                       .width = images.shape[2],
                       .images = std::move(images.bytes),
                       .labels = std::move(labels.bytes),
                       .class_names = std::move(class_names),
                       .name = images_path});
}

PixelDataset fashion_mnist(Split split, const std::string& folder) {
  std::string stem = folder + (split == Split::train ? "/train" : "/t10k");
  auto file = [&](const char* what) {
    std::string path = stem + what;
    for (const std::string& candidate : {path + ".gz", path})
      if (io::exists(candidate)) return candidate;
    fail("dataset: ", path, ".gz is not there; Debian has it: sudo apt-get install dataset-fashion-mnist");
  };
  std::string images = file("-images-idx3-ubyte");
  return idx_dataset(images, file("-labels-idx1-ubyte"),
                     {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker",
                      "Bag", "Ankle boot"});
}

}  // namespace reprise::data
