#include "reprise/data/recipes.h"

#include <algorithm>
#include <cmath>

#include "reprise/data/transforms/blur.h"
#include "reprise/data/transforms/color.h"
#include "reprise/data/transforms/flip.h"
#include "reprise/data/transforms/point.h"
#include "reprise/data/transforms/rand_augment.h"
#include "reprise/data/transforms/random_crop.h"
#include "reprise/data/transforms/three_augment.h"

namespace reprise::data {
namespace {

/// Options with the recipe's in place of what is not said.
RecipeOptions filled(RecipeOptions options, int64_t image, const Statistics& statistics,
                     double crop_pct = 0.875) {
  if (options.image == 0) options.image = image;
  if (options.crop_pct == 0) options.crop_pct = crop_pct;
  if (options.statistics.mean.empty()) options.statistics = statistics;
  check(options.crop_pct > 0 && options.crop_pct <= 1,
        "recipe: crop_pct must be in (0, 1]: ", options.crop_pct);
  return options;
}

PipelineOptions rows_of(const RecipeOptions& options) {
  return {.height = options.image,
          .width = options.image,
          .channels = int64_t(options.statistics.mean.size()),
          .mean = options.statistics.mean,
          .deviation = options.statistics.deviation,
          .apply_exif = options.apply_exif,
          .decoding = options.decoding};
}

/// The colour of the mean, which maps fill with; gray's in all three.
Fill mean_fill(const RecipeOptions& options) {
  const auto& mean = options.statistics.mean;
  Fill fill{};
  for (size_t c = 0; c < 3; ++c)
    fill[c] = uint8_t(std::clamp(std::nearbyint(255 * mean[std::min(c, mean.size() - 1)]), 0.0, 255.0));
  return fill;
}

RandomResizedCrop crop_of(const RecipeOptions& options, double min_scale = 0.08,
                          Filter filter = Filter::bicubic) {
  return RandomResizedCrop(
      {.height = options.image, .width = options.image, .min_scale = min_scale, .filter = filter});
}

Pipeline eval_of(const RecipeOptions& options, Filter filter) {
  Pipeline pipeline(rows_of(options));
  const auto size = int64_t(std::floor(double(options.image) / options.crop_pct));
  pipeline.add(ResizeCenterCrop({.size = size, .crop = options.image, .filter = filter}));
  return pipeline;
}

constexpr MixingOptions deit_mixing{.mixup = 0.8, .cutmix = 1};

Pipeline deit_of(const RecipeOptions& options, std::optional<MixingOptions> mixing) {
  PipelineOptions rows = rows_of(options);
  rows.erasing = ErasingOptions{};
  rows.mixing = mixing;
  Pipeline pipeline(std::move(rows));
  pipeline.add(crop_of(options)).add(RandomFlip());
  pipeline.add(TimmRandAugment({.affine = {Interpolation::bicubic, mean_fill(options)}}));
  return pipeline;
}

Pipeline lejepa_of(const RecipeOptions& options, double min_scale, double max_scale) {
  const double blur = 2.0 / 224 * double(options.image);  // the largest radius
  Pipeline pipeline(rows_of(options));
  pipeline.add(RandomResizedCrop(
      {.height = options.image, .width = options.image, .min_scale = min_scale, .max_scale = max_scale}));
  pipeline.add(RandomFlip());
  pipeline.add(
      ColorJitter({.brightness = 0.4, .contrast = 0.4, .saturation = 0.2, .hue = 0.1, .probability = 0.8}));
  pipeline.add(RandomGray(0.2));
  pipeline.add(RandomBlur({.probability = 0.5, .min_radius = blur / 20, .max_radius = blur}));
  pipeline.add(RandomSolarize(0.2));
  return pipeline;
}

}  // namespace

const Statistics& imagenet_statistics() {
  static const Statistics statistics{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
  return statistics;
}
const Statistics& cifar10_statistics() {
  static const Statistics statistics{{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}};
  return statistics;
}
const Statistics& fashion_mnist_statistics() {
  static const Statistics statistics{{0.28604}, {0.35302}};
  return statistics;
}
const Statistics& half_statistics() {
  static const Statistics statistics{{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}};
  return statistics;
}

Pipeline fashion_train(const RecipeOptions& given) {
  Pipeline pipeline = fashion_eval(given);
  pipeline.add(RandomFlip());
  return pipeline;
}
Pipeline fashion_eval(const RecipeOptions& given) {
  return eval_of(filled(given, 28, fashion_mnist_statistics(), 1), Filter::bicubic);
}

Pipeline cifar_train(const RecipeOptions& given) {
  const RecipeOptions options = filled(given, 32, cifar10_statistics(), 1);
  Pipeline pipeline(rows_of(options));
  pipeline.add(RandomCrop({.height = options.image, .width = options.image})).add(RandomFlip());
  return pipeline;
}
Pipeline cutout_train(const RecipeOptions& given) {
  const RecipeOptions options = filled(given, 32, cifar10_statistics(), 1);
  constexpr double side = 12.0 / 32;  // of the square in that of the image
  PipelineOptions rows = rows_of(options);
  rows.erasing = ErasingOptions{.probability = 1,
                                .min_area = side * side,
                                .max_area = side * side,
                                .min_ratio = 1,
                                .max_ratio = 1,
                                .fill = ErasingFill::zero};
  Pipeline pipeline(std::move(rows));
  pipeline.add(RandomCrop({options.image, options.image, 2, Padding::reflect})).add(RandomFlip());
  return pipeline;
}
Pipeline cifar_eval(const RecipeOptions& given) {
  return eval_of(filled(given, 32, cifar10_statistics(), 1), Filter::bicubic);
}

Pipeline deit_train(const RecipeOptions& given) {
  return deit_of(filled(given, 224, imagenet_statistics()), deit_mixing);
}

Pipeline deit3_train(const RecipeOptions& given) {
  const RecipeOptions options = filled(given, 224, imagenet_statistics());
  PipelineOptions rows = rows_of(options);
  rows.mixing = deit_mixing;
  Pipeline pipeline(std::move(rows));
  pipeline.add(crop_of(options)).add(RandomFlip()).add(ThreeAugment());
  pipeline.add(ColorJitter({.brightness = 0.3, .contrast = 0.3, .saturation = 0.3}));
  return pipeline;
}

Pipeline simple_train(const RecipeOptions& given) {
  const RecipeOptions options = filled(given, 224, half_statistics());
  PipelineOptions rows = rows_of(options);
  rows.mixing = MixingOptions{.mixup = 0.2};
  Pipeline pipeline(std::move(rows));
  pipeline.add(crop_of(options, 0.05, Filter::bilinear)).add(RandomFlip());
  pipeline.add(RandAugment({.magnitude = 10, .affine = {.fill = mean_fill(options)}}));
  return pipeline;
}

Pipeline finetune_train(const RecipeOptions& given) {
  return deit_of(filled(given, 224, imagenet_statistics()), std::nullopt);
}

Pipeline resnet_train(const RecipeOptions& given) {
  const RecipeOptions options = filled(given, 224, imagenet_statistics());
  Pipeline pipeline(rows_of(options));
  pipeline.add(crop_of(options, 0.08, Filter::bilinear)).add(RandomFlip());
  return pipeline;
}

Pipeline jepa_train(const RecipeOptions& given) {
  const RecipeOptions options = filled(given, 224, imagenet_statistics());
  Pipeline pipeline(rows_of(options));
  pipeline.add(crop_of(options, 0.3));
  return pipeline;
}

Pipeline lejepa_global(const RecipeOptions& given) {
  return lejepa_of(filled(given, 224, imagenet_statistics()), 0.3, 1);
}
Pipeline lejepa_local(const RecipeOptions& given) {
  return lejepa_of(filled(given, 224, imagenet_statistics()), 0.05, 0.3);
}

Pipeline photo_eval(const RecipeOptions& given) {
  return eval_of(filled(given, 224, imagenet_statistics()), Filter::bicubic);
}
Pipeline resnet_eval(const RecipeOptions& given) {
  return eval_of(filled(given, 224, imagenet_statistics()), Filter::bilinear);
}

}  // namespace reprise::data
