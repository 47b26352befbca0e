// The pipelines of recipes, by name. Model, optimizer and schedule of a recipe are the program's.
#pragma once

#include "reprise/data/pipeline.h"

namespace reprise::data {

/// Mean and deviation of the pixels of a data set, a number per channel, where pixels are in [0, 1].
struct Statistics {
  std::vector<double> mean;       ///< what is subtracted from a pixel
  std::vector<double> deviation;  ///< what that is divided by, above 0
};
const Statistics& imagenet_statistics();       ///< of three channels, as torchvision's models
const Statistics& cifar10_statistics();        ///< of three channels
const Statistics& fashion_mnist_statistics();  ///< gray, measured over its 60,000 images
const Statistics& half_statistics();  ///< 0.5 and 0.5: values in [-1, 1], as AugReg's and big_vision's models

/// Those of the recipe are meant by `statistics` without numbers, and by an `image` or `crop_pct` of 0.
struct RecipeOptions {
  int64_t image = 0;        ///< pixels of a side
  double crop_pct = 0;      ///< evaluation: the middle that is cut, as a share of the short side
  Statistics statistics{};  ///< their number is that of the channels
  bool apply_exif = true;   ///< turns images as their EXIF orientation says
  /// How JPEGs are decoded in recipes that begin with a RandomResizedCrop; others, and evaluation, are exact always.
  Decoding decoding = Decoding::exact;
};

/// Fashion-MNIST, 28 pixels, gray: flips. The short side of other images is resized, and the middle cut.
Pipeline fashion_train(const RecipeOptions& options = {});
/// The same without flips.
Pipeline fashion_eval(const RecipeOptions& options = {});

/// CIFAR-10, 32 pixels: crops of images padded by 4, flips. Error for images smaller than 24 pixels.
Pipeline cifar_train(const RecipeOptions& options = {});
/// CIFAR-10 as it is: the short side of other images is resized, and the middle cut.
Pipeline cifar_eval(const RecipeOptions& options = {});
/// As cifar_train with crops of images mirrored by 2 and, as after DeVries and Taylor 2017, a square of 12 pixels of 32
/// that is cut out: what networks are trained with for minutes (Keller Jordan 2024, airbench96).
Pipeline cutout_train(const RecipeOptions& options = {});

/// DeiT (Touvron et al. 2021), 224 pixels: crops, flips, timm's RandAugment, erasing, mixup 0.8 or CutMix 1.
Pipeline deit_train(const RecipeOptions& options = {});
/// DeiT III (Touvron et al. 2022): crops, flips, 3-Augment, color jitter 0.3, mixup 0.8 or CutMix 1.
Pipeline deit3_train(const RecipeOptions& options = {});
/// big_vision's ViT-S/16 (Beyer et al. 2022): crops from 5 % of the area on, flips, RandAugment tv:2,10, mixup 0.2.
Pipeline simple_train(const RecipeOptions& options = {});
/// From weights: DeiT's without mixing.
Pipeline finetune_train(const RecipeOptions& options = {});
/// torchvision's ResNet: bilinear crops, flips.
Pipeline resnet_train(const RecipeOptions& options = {});
/// I-JEPA (Assran et al. 2023), 224 pixels: crops from 30 % of the area on, nothing else.
Pipeline jepa_train(const RecipeOptions& options = {});
/// LeJEPA (Balestriero and LeCun 2025), 224 pixels, the larger of DINO's two kinds of views: crops from 30 % of the
/// area on; lejepa_local has the smaller. Both are flipped, and jittered, gray, blurred and solarized at times. All
/// views are of `image` pixels, where the authors' small ones have 98, and a blur is in proportion to it.
Pipeline lejepa_global(const RecipeOptions& options = {});
/// LeJEPA's small views: crops of 5 to 30 % of the area, else as lejepa_global.
Pipeline lejepa_local(const RecipeOptions& options = {});

/// Evaluation on photographs: the short side becomes floor(image / crop_pct), 0.875 as usual, and the middle is cut.
Pipeline photo_eval(const RecipeOptions& options = {});
Pipeline resnet_eval(const RecipeOptions& options = {});  ///< the same, bilinear

}  // namespace reprise::data
