#include "reprise/data/datasets/cifar.h"

#include "reprise/data/datasets/class_names.h"
#include "reprise/io/cifar.h"
#include "reprise/io/file.h"
#include "reprise/io/folder.h"

namespace reprise::data {
namespace {

PixelDataset of_images(io::CifarImages images, std::vector<std::string> class_names,
                       const std::string& name) {
  return PixelDataset({.height = io::cifar_side,
                       .width = io::cifar_side,
                       .channels = 3,
                       .images = std::move(images.images),
                       .labels = std::move(images.labels),
                       .class_names = std::move(class_names),
                       .name = name});
}

std::vector<std::string> numbers(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

}  // namespace

PixelDataset cifar10(const std::string& folder, Split split) {
  std::vector<std::string> files = {"test_batch.bin"};
  if (split == Split::train)
    files = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
             "data_batch_5.bin"};
  io::CifarImages all;
  for (const std::string& file : files) {
    std::string path = folder + "/" + file;
    io::CifarImages part = io::parse_cifar(io::read_file(path), path, 1);
    all.images += part.images;
    all.labels += part.labels;
  }
  std::string names = folder + "/batches.meta.txt";
  return of_images(std::move(all), io::exists(names) ? read_class_names(names) : numbers(10), folder);
}

PixelDataset cifar100(const std::string& folder, Split split, Cifar100Labels labels) {
  std::string path = folder + (split == Split::train ? "/train.bin" : "/test.bin");
  io::CifarImages all = io::parse_cifar(io::read_file(path), path, 2);
  bool is_fine = labels == Cifar100Labels::fine;
  std::string chosen;
  for (size_t i = is_fine ? 1 : 0; i < all.labels.size(); i += 2) chosen += all.labels[i];
  all.labels = std::move(chosen);
  std::string names = folder + (is_fine ? "/fine_label_names.txt" : "/coarse_label_names.txt");
  return of_images(std::move(all), io::exists(names) ? read_class_names(names) : numbers(is_fine ? 100 : 20),
                   path);
}

}  // namespace reprise::data
