// CIFAR-10 and CIFAR-100 in their binary version: 32 x 32 colour images, 50,000 to train on, 10,000 to validate with.
#pragma once

#include "reprise/data/datasets/pixel_dataset.h"
#include "reprise/data/datasets/split.h"

namespace reprise::data {

/// CIFAR-10 from the folder of data_batch_1.bin to data_batch_5.bin and test_batch.bin; the classes' names from
/// batches.meta.txt where that is there. Error if a file is missing or damaged.
PixelDataset cifar10(const std::string& folder, Split split);

/// Which of an image's two labels is its class: of 20 classes, or of 100.
enum class Cifar100Labels { coarse, fine };

/// CIFAR-100 from the folder of train.bin and test.bin; the names from coarse_label_names.txt or fine_label_names.txt
/// where that is there, else numbers.
PixelDataset cifar100(const std::string& folder, Split split, Cifar100Labels labels = Cifar100Labels::fine);

}  // namespace reprise::data
