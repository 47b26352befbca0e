// Data sets in IDX files: MNIST's kin, Fashion-MNIST first.
#pragma once

#include "reprise/data/datasets/pixel_dataset.h"
#include "reprise/data/datasets/split.h"

namespace reprise::data {

/// Gray images from a file of images and one of labels, gzipped or not. Without names the classes are "0", "1", ... up to
/// the largest label. Error if a file is damaged, the two differ in number, or there is a label without a name.
PixelDataset idx_dataset(const std::string& images_path, const std::string& labels_path,
                         std::vector<std::string> class_names = {});

/// Fashion-MNIST: 60,000 images to train on or 10,000 to validate with, 28 x 28, ten classes. `folder` is where Debian's
/// package dataset-fashion-mnist puts it; one with the same four files does too, gzipped or not.
PixelDataset fashion_mnist(Split split, const std::string& folder = "/usr/share/datasets/fashion-mnist");

/// The mean of the pixels, in [0, 1], of Fashion-MNIST's 60,000 training images.
constexpr double fashion_mnist_mean = 0.28604;
/// Their standard deviation.
constexpr double fashion_mnist_deviation = 0.35302;

}  // namespace reprise::data
